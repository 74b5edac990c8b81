package main

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	client "lockkeeper.dev/compare"
)

// bsm/redislock over one server. It has no tries by default: it asks again after this time.
const pause = 100 * time.Millisecond

type redislockClient struct{ client *redislock.Client }

func connectRedislock(url string) (client.Client, error) {
	connection := redis.NewClient(&redis.Options{Addr: address(url)})
	if err := connection.Ping(context.Background()).Err(); err != nil {
		return nil, err
	}
	return redislockClient{redislock.New(connection)}, nil
}

func (c redislockClient) Lock(name string, _ int64) (client.Lock, error) {
	return redislockLock{c.client, name}, nil
}

type redislockLock struct {
	client *redislock.Client
	name   string
}

func (l redislockLock) Acquire(ctx context.Context) (func() error, error) {
	options := redislock.Options{RetryStrategy: redislock.LinearBackoff(pause)}
	held, err := l.client.Obtain(ctx, l.name, 30*time.Second, &options)
	if err != nil {
		return nil, err
	}
	return func() error { return held.Release(context.Background()) }, nil
}
