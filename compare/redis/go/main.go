// Clients in Go: `go-client KIND URL`.
package main

import (
	"strings"

	client "lockkeeper.dev/compare"
)

func main() {
	client.Main(client.Connectors{
		"redsync":     connectRedsync,
		"redsync-1ms": connectRedsyncOften,
		"rueidislock": connectRueidis,
	})
}

func address(url string) string {
	return strings.TrimPrefix(url, "redis://")
}
