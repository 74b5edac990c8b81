package main

import (
	"context"
	"math"
	"math/rand"
	"strings"
	"time"

	"github.com/go-redsync/redsync/v4"
	pools "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	client "lockkeeper.dev/compare"
)

// redsync over one server or several, with its defaults but for the life of a lock and the number of tries.
type redsyncClient struct {
	sync    *redsync.Redsync
	options []redsync.Option
}

func connectRedsync(url string) (client.Client, error) {
	return connectRedsyncWith(url)
}

// For those who would rather ask too often than wait: 1 ms on average.
func connectRedsyncOften(url string) (client.Client, error) {
	return connectRedsyncWith(url, redsync.WithRetryDelayFunc(func(int) time.Duration {
		return time.Duration(rand.Int63n(int64(2 * time.Millisecond)))
	}))
}

// Some servers of a Redlock may be dead.
func connectRedsyncRedlock(url string) (client.Client, error) {
	var all []pools.Pool
	for _, server := range strings.Split(strings.TrimPrefix(url, "redlock://"), ",") {
		all = append(all, goredis.NewPool(redis.NewClient(&redis.Options{Addr: server})))
	}
	return &redsyncClient{redsync.New(all...), endless()}, nil
}

func endless() []redsync.Option {
	return []redsync.Option{redsync.WithExpiry(30 * time.Second), redsync.WithTries(math.MaxInt32)}
}

func connectRedsyncWith(url string, options ...redsync.Option) (client.Client, error) {
	connection := redis.NewClient(&redis.Options{Addr: address(url)})
	if err := connection.Ping(context.Background()).Err(); err != nil {
		return nil, err
	}
	options = append(options, endless()...)
	return &redsyncClient{redsync.New(goredis.NewPool(connection)), options}, nil
}

func (c *redsyncClient) Lock(name string, _ int64) (client.Lock, error) {
	return redsyncLock{c.sync.NewMutex(name, c.options...)}, nil
}

type redsyncLock struct{ mutex *redsync.Mutex }

func (l redsyncLock) Acquire(ctx context.Context) (func() error, error) {
	if err := l.mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return func() error {
		_, err := l.mutex.Unlock()
		return err
	}, nil
}
