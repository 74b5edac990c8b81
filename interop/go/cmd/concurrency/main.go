// Go's concurrency.Mutex, with a session of its own. Its protocol is in ../../../README.md.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

type contender struct {
	client  *clientv3.Client
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func main() {
	ttl, err := strconv.Atoi(os.Args[2])
	must(err)
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(os.Args[1], ",")})
	must(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	must(err)
	contender := contender{client: client, session: session}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		answer, err := contender.obey(strings.Fields(lines.Text()))
		if err != nil {
			answer = "error " + err.Error()
		}
		fmt.Println(answer)
	}
	must(session.Close())
}

func (c *contender) obey(words []string) (string, error) {
	ctx := context.Background()
	switch words[0] {
	case "lock":
		err := c.lock(ctx, words[1])
		return "held " + c.mutex.Key(), err
	case "try":
		c.mutex = concurrency.NewMutex(c.session, words[1])
		err := c.mutex.TryLock(ctx)
		if errors.Is(err, concurrency.ErrLocked) {
			return "busy", nil
		}
		return "held " + c.mutex.Key(), err
	case "unlock":
		return "released", c.mutex.Unlock(ctx)
	case "count":
		times, err := strconv.Atoi(words[3])
		if err != nil {
			return "", err
		}
		return "counted", c.count(ctx, words[1], words[2], times)
	}
	return "", errors.New("no " + words[0])
}

func (c *contender) lock(ctx context.Context, name string) error {
	c.mutex = concurrency.NewMutex(c.session, name)
	return c.mutex.Lock(ctx)
}

func (c *contender) count(ctx context.Context, name, counter string, times int) error {
	for ; times > 0; times-- {
		if err := c.lock(ctx, name); err != nil {
			return err
		}
		if err := c.increment(ctx, counter); err != nil {
			return err
		}
		if err := c.mutex.Unlock(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *contender) increment(ctx context.Context, counter string) error {
	found, err := c.client.Get(ctx, counter)
	if err != nil {
		return err
	}
	count := 0
	if len(found.Kvs) > 0 {
		if count, err = strconv.Atoi(string(found.Kvs[0].Value)); err != nil {
			return err
		}
	}
	_, err = c.client.Put(ctx, counter, strconv.Itoa(count+1))
	return err
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
