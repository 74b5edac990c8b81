// redsync and bsm/redislock. Their protocol is in ../../../README.md.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A lock of one of the libraries.
type lock interface {
	lock(ctx context.Context, name string) error
	// Returns whether the lock was free.
	try(ctx context.Context, name string) (bool, error)
	extend(ctx context.Context) error
	isValid(ctx context.Context) (bool, error)
	unlock(ctx context.Context) error
}

type contender struct {
	lock    lock
	counter *redis.Client
}

func main() {
	kind, ttl := os.Args[1], os.Args[3]
	var servers []*redis.Client
	for _, address := range strings.Split(os.Args[2], ",") {
		servers = append(servers, redis.NewClient(&redis.Options{Addr: address}))
	}
	milliseconds, err := strconv.Atoi(ttl)
	must(err)
	contender := contender{counter: servers[0]}
	contender.lock, err = open(kind, servers, time.Duration(milliseconds)*time.Millisecond)
	must(err)
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := contender.obey(context.Background(), strings.Fields(lines.Text()))
		if err != nil {
			answer = "error " + strings.ReplaceAll(err.Error(), "\n", "; ")
		}
		fmt.Println(answer)
	}
}

func open(kind string, servers []*redis.Client, ttl time.Duration) (lock, error) {
	switch kind {
	case "redsync":
		return newRedsync(servers, ttl), nil
	case "redislock":
		return newRedislock(servers[0], ttl), nil
	}
	return nil, errors.New("no kind " + kind)
}

func (c *contender) obey(ctx context.Context, words []string) (string, error) {
	switch words[0] {
	case "lock":
		return "held " + words[1], c.lock.lock(ctx, words[1])
	case "try":
		isHeld, err := c.lock.try(ctx, words[1])
		if err != nil || isHeld {
			return "held " + words[1], err
		}
		return "busy", nil
	case "extend":
		return "extended", c.lock.extend(ctx)
	case "check":
		isValid, err := c.lock.isValid(ctx)
		if err != nil || isValid {
			return "valid", err
		}
		return "lost", nil
	case "unlock":
		return "released", c.lock.unlock(ctx)
	case "count":
		times, err := strconv.Atoi(words[3])
		if err != nil {
			return "", err
		}
		longest, err := c.count(ctx, words[1], words[2], times)
		return fmt.Sprintf("counted %d", longest.Milliseconds()), err
	}
	return "", errors.New("no " + words[0])
}

// Returns the longest wait for the lock.
func (c *contender) count(ctx context.Context, name, counter string, times int) (time.Duration, error) {
	var longest time.Duration
	for ; times > 0; times-- {
		start := time.Now()
		if err := c.lock.lock(ctx, name); err != nil {
			return longest, err
		}
		longest = max(longest, time.Since(start))
		if err := c.increment(ctx, counter); err != nil {
			return longest, err
		}
		if err := c.lock.unlock(ctx); err != nil {
			return longest, err
		}
	}
	return longest, nil
}

func (c *contender) increment(ctx context.Context, counter string) error {
	count, err := c.counter.Get(ctx, counter).Int()
	if err != nil {
		return err
	}
	return c.counter.Set(ctx, counter, count+1, 0).Err()
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
