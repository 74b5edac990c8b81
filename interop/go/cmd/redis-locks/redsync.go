package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	client "github.com/redis/go-redis/v9"
)

// redsync over one server or several, with its defaults but for the ttl and the number of tries.
type redsyncLock struct {
	sync  *redsync.Redsync
	ttl   time.Duration
	mutex *redsync.Mutex
}

func newRedsync(servers []*client.Client, ttl time.Duration) *redsyncLock {
	var pools []redis.Pool
	for _, server := range servers {
		pools = append(pools, goredis.NewPool(server))
	}
	return &redsyncLock{sync: redsync.New(pools...), ttl: ttl}
}

func (l *redsyncLock) named(name string) *redsync.Mutex {
	return l.sync.NewMutex(name, redsync.WithExpiry(l.ttl), redsync.WithTries(math.MaxInt32))
}

func (l *redsyncLock) lock(ctx context.Context, name string) error {
	l.mutex = l.named(name)
	return l.mutex.LockContext(ctx)
}

func (l *redsyncLock) try(ctx context.Context, name string) (bool, error) {
	mutex, taken := l.named(name), &redsync.ErrTaken{}
	err := mutex.TryLockContext(ctx)
	if errors.As(err, &taken) {
		return false, nil
	}
	l.mutex = mutex
	return err == nil, err
}

func (l *redsyncLock) extend(ctx context.Context) error {
	_, err := l.mutex.ExtendContext(ctx)
	return err
}

func (l *redsyncLock) isValid(context.Context) (bool, error) {
	return time.Now().Before(l.mutex.Until()), nil
}

func (l *redsyncLock) unlock(ctx context.Context) error {
	isReleased, err := l.mutex.UnlockContext(ctx)
	if !isReleased && err == nil {
		return errors.New("not released")
	}
	if isReleased {
		return nil
	}
	return err
}
