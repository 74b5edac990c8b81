// A client in Go: `go-client go HOST:PORT,…`.
package main

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	client "lockkeeper.dev/compare"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// As long as those of the others here.
const ttl = 30

func main() {
	client.Main(client.Connectors{"go": connect})
}

// One connection. Two mutexes of one session would both have the same lock.
type etcd struct {
	connection *clientv3.Client
	mutex      sync.Mutex
	sessions   map[int64]*concurrency.Session
}

func connect(endpoints string) (client.Client, error) {
	connection, err := clientv3.New(clientv3.Config{
		Endpoints:   strings.Split(endpoints, ","),
		DialTimeout: 10 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &etcd{connection: connection, sessions: map[int64]*concurrency.Session{}}, nil
}

func (e *etcd) Lock(name string, nth int64) (client.Lock, error) {
	session, err := e.session(nth)
	if err != nil {
		return nil, err
	}
	return lock{session, concurrency.NewMutex(session, name)}, nil
}

func (e *etcd) session(nth int64) (*concurrency.Session, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if session, ok := e.sessions[nth]; ok {
		return session, nil
	}
	session, err := concurrency.NewSession(e.connection, concurrency.WithTTL(ttl))
	if err == nil {
		e.sessions[nth] = session
	}
	return session, err
}

type lock struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func (l lock) Acquire(ctx context.Context) (func() error, error) {
	if err := l.mutex.Lock(ctx); err != nil {
		return nil, err
	}
	return func() error {
		select {
		case <-l.session.Done():
			return errors.New("the session was lost before the release")
		default:
			return l.mutex.Unlock(context.Background())
		}
	}, nil
}
