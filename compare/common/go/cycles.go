package client

import (
	"context"
	"encoding/binary"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// One lock and release, in nanoseconds of CLOCK_MONOTONIC. Granted is 0 where it gave up waiting.
type cycle struct{ client, asked, granted, gave, done int64 }

// Go's own monotonic time is this clock, counted from its start: read without a system call.
var (
	base      = time.Now()
	baseNanos = clock()
)

func clock() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

func nanos() int64 {
	return baseNanos + int64(time.Since(base))
}

func sleepUntil(at int64) {
	time.Sleep(time.Duration(at - nanos()))
}

func (o goOrder) obey(client Client) error {
	var group sync.WaitGroup
	logs := make([][]cycle, o.tasks)
	errs := make([]error, o.tasks)
	for task := range o.tasks {
		lock, err := client.Lock(o.name(task), o.nth(task))
		if err != nil {
			return err
		}
		group.Go(func() { logs[task], errs[task] = o.cycles(lock) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return write(o.trace, logs)
}

func (o goOrder) cycles(lock Lock) ([]cycle, error) {
	limit := time.Duration(o.end + o.limit - nanos())
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	room := int64(1 << 16)
	if o.most > 0 {
		room = o.most
	}
	log := make([]cycle, 0, room)
	begun := int64(0)
	for next := nanos(); nanos() < o.end && (o.most == 0 || begun < o.most); begun++ {
		if o.every > 0 {
			next += o.every
			sleepUntil(next)
		}
		current := cycle{asked: nanos()}
		release, err := lock.Acquire(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return append(log, current), nil
			}
			return log, err
		}
		current.granted = nanos()
		if o.hold > 0 {
			sleepUntil(current.granted + o.hold)
		}
		current.gave = nanos()
		if err := release(); err != nil {
			return log, err
		}
		current.done = nanos()
		log = append(log, current)
	}
	return log, nil
}

func write(path string, logs [][]cycle) error {
	var bytes []byte
	for _, log := range logs {
		for _, c := range log {
			for _, number := range []int64{c.client, c.asked, c.granted, c.gave, c.done} {
				bytes = binary.LittleEndian.AppendUint64(bytes, uint64(number))
			}
		}
	}
	return os.WriteFile(path, bytes, 0o600)
}
