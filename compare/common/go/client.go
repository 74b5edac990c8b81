// Package client locks and releases on orders: `go-client KIND URL`. It says `ready`, then answers each order of
// its standard input with one line.
package client

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
)

// A Client is a connection to the server.
type Client interface {
	// Lock is a lock for one task; nth: how many tasks of this client have asked for the same one. Where a lock belongs to
	// a session as a whole, each of them needs a session of its own.
	Lock(name string, nth int64) (Lock, error)
}

// A Lock is one lock as one task has it.
type Lock interface {
	// Acquire waits, and answers how to release.
	Acquire(ctx context.Context) (func() error, error)
}

// Connectors by kind.
type Connectors map[string]func(url string) (Client, error)

// Main obeys, until there are no more orders.
func Main(kinds Connectors) {
	if err := run(kinds); err != nil {
		fmt.Println("failed:", oneLine(err))
		os.Exit(1)
	}
}

func run(kinds Connectors) error {
	if len(os.Args) != 3 {
		return fmt.Errorf("usage: go-client KIND URL")
	}
	connect, ok := kinds[os.Args[1]]
	if !ok {
		return fmt.Errorf("no such kind: %s", os.Args[1])
	}
	client, err := connect(os.Args[2])
	if err != nil {
		return err
	}
	fmt.Println("ready")
	held := held{}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		if answer, err := obey(client, &held, lines.Text()); err != nil {
			fmt.Println("failed:", oneLine(err))
		} else {
			fmt.Println(answer)
		}
	}
	return nil
}

func obey(client Client, held *held, line string) (string, error) {
	verb, words := parse(line)
	switch verb {
	case "go":
		order, err := words.goOrder()
		if err != nil {
			return "", err
		}
		return "done", order.obey(client)
	case "hold":
		return held.take(client, words["lock"], words.number("count"))
	case "drop":
		return held.giveBack()
	}
	return "", fmt.Errorf("no such order: %s", line)
}

func oneLine(err error) string {
	return strings.ReplaceAll(err.Error(), "\n", " ")
}
