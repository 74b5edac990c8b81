package main

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	client "lockkeeper.dev/compare"
)

// rueidislock over one server: a majority of one, as its documentation says for that. Its locks renew themselves; they
// live as long as those of the others here.
type rueidisClient struct{ locker rueidislock.Locker }

func connectRueidis(url string) (client.Client, error) {
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{address(url)}},
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    30 * time.Second,
		ExtendInterval: 10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return rueidisClient{locker}, nil
}

func (c rueidisClient) Lock(name string, _ int64) (client.Lock, error) {
	return rueidisLock{c.locker, name}, nil
}

type rueidisLock struct {
	locker rueidislock.Locker
	name   string
}

func (l rueidisLock) Acquire(ctx context.Context) (func() error, error) {
	// The lock ends with the context that it was taken with: our limit is longer than what is measured.
	held, release, err := l.locker.WithContext(ctx, l.name)
	if err != nil {
		return nil, err
	}
	return func() error {
		if held.Err() != nil {
			return errors.New("the lock was lost before its release")
		}
		release()
		return nil
	}, nil
}
