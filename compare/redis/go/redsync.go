package main

import (
	"context"
	"math"
	"math/rand"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsync over one server, with its defaults but for the life of a lock and the number of tries.
type redsyncClient struct {
	sync    *redsync.Redsync
	options []redsync.Option
}

func connectRedsync(address string) (Client, error) {
	return connectRedsyncWith(address)
}

// For those who would rather ask too often than wait: 1 ms on average.
func connectRedsyncOften(address string) (Client, error) {
	return connectRedsyncWith(address, redsync.WithRetryDelayFunc(func(int) time.Duration {
		return time.Duration(rand.Int63n(int64(2 * time.Millisecond)))
	}))
}

func connectRedsyncWith(address string, options ...redsync.Option) (Client, error) {
	client := redis.NewClient(&redis.Options{Addr: address})
	if err := client.Ping(context.Background()).Err(); err != nil {
		return nil, err
	}
	options = append(options, redsync.WithExpiry(30*time.Second), redsync.WithTries(math.MaxInt32))
	return &redsyncClient{redsync.New(goredis.NewPool(client)), options}, nil
}

func (c *redsyncClient) Lock(name string) Lock {
	return redsyncLock{c.sync.NewMutex(name, c.options...)}
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
