package main

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// bsm/redislock has no tries by default: it asks again after this time.
const pause = 100 * time.Millisecond

// Without a deadline, bsm/redislock gives up after the ttl.
const limit = time.Hour

type redislockLock struct {
	client *redislock.Client
	ttl    time.Duration
	held   *redislock.Lock
}

func newRedislock(server *redis.Client, ttl time.Duration) *redislockLock {
	return &redislockLock{client: redislock.New(server), ttl: ttl}
}

func (l *redislockLock) lock(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	options := redislock.Options{RetryStrategy: redislock.LinearBackoff(pause)}
	held, err := l.client.Obtain(ctx, name, l.ttl, &options)
	l.held = held
	return err
}

func (l *redislockLock) try(ctx context.Context, name string) (bool, error) {
	held, err := l.client.Obtain(ctx, name, l.ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	l.held = held
	return err == nil, err
}

func (l *redislockLock) extend(ctx context.Context) error {
	return l.held.Refresh(ctx, l.ttl, nil)
}

func (l *redislockLock) isValid(ctx context.Context) (bool, error) {
	left, err := l.held.TTL(ctx)
	return left > 0, err
}

func (l *redislockLock) unlock(ctx context.Context) error {
	return l.held.Release(ctx)
}
