package client

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
)

// How many locks are taken at once.
const atOnce = 64

// Locks that are held and renewed while something else is measured.
type held struct{ releases []func() error }

func (h *held) take(client Client, prefix string, count int64) (string, error) {
	before, err := resident()
	if err != nil {
		return "", err
	}
	h.releases = make([]func() error, count)
	errs := make([]error, count)
	var group sync.WaitGroup
	gate := make(chan struct{}, atOnce)
	for number := range count {
		gate <- struct{}{}
		group.Go(func() {
			defer func() { <-gate }()
			lock, err := client.Lock(fmt.Sprintf("%s-%d", prefix, number), 0)
			if err != nil {
				errs[number] = err
				return
			}
			h.releases[number], errs[number] = lock.Acquire(context.Background())
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return "", err
		}
	}
	after, err := resident()
	return fmt.Sprintf("done before=%d after=%d", before, after), err
}

func (h *held) giveBack() (string, error) {
	lost := 0
	for _, release := range h.releases {
		if release() != nil {
			lost++
		}
	}
	h.releases = nil
	return fmt.Sprintf("done lost=%d", lost), nil
}

// The resident memory of this process, in bytes.
func resident() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kilobytes int64
	_, err = fmt.Sscan(rest, &kilobytes)
	return kilobytes * 1024, err
}
