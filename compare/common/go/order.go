package client

import (
	"fmt"
	"strconv"
	"strings"
)

type words map[string]string

func parse(line string) (string, words) {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return "", nil
	}
	found := words{}
	for _, field := range fields[1:] {
		if key, value, ok := strings.Cut(field, "="); ok {
			found[key] = value
		}
	}
	return fields[0], found
}

func (w words) number(key string) int64 {
	number, _ := strconv.ParseInt(w[key], 10, 64)
	return number
}

// What `go` asks for; see the README.
type goOrder struct {
	lock                                 string
	own                                  bool
	tasks, hold, every, most, end, limit int64
	trace                                string
}

func (w words) goOrder() (goOrder, error) {
	if w.number("clients") != 1 {
		return goOrder{}, fmt.Errorf("a process is one client")
	}
	if w["awaited"] != "1" {
		return goOrder{}, fmt.Errorf("a release of these clients is awaited")
	}
	return goOrder{
		lock: w["lock"], own: w["own"] == "1", trace: w["trace"],
		tasks: w.number("tasks"), hold: w.number("hold"), every: w.number("every"),
		most: w.number("most"), end: w.number("end"), limit: w.number("limit"),
	}, nil
}

func (o goOrder) name(task int64) string {
	if o.own {
		return fmt.Sprintf("%s-0-%d", o.lock, task)
	}
	return o.lock
}

// How many tasks have asked for the same lock before this one.
func (o goOrder) nth(task int64) int64 {
	if o.own {
		return 0
	}
	return task
}
