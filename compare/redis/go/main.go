// Clients in Go: `go-client KIND URL`.
package main

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"
	client "lockkeeper.dev/compare"
)

// Some servers of a Redlock are dead on purpose, and go-redis would report each connection that fails.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

func main() {
	redis.SetLogger(silent{})
	client.Main(client.Connectors{
		"redsync":         connectRedsync,
		"redsync-1ms":     connectRedsyncOften,
		"redsync-redlock": connectRedsyncRedlock,
		"bsm-redislock":   connectRedislock,
		"rueidislock":     connectRueidis,
	})
}

func address(url string) string {
	return strings.TrimPrefix(url, "redis://")
}
