// go mod edit -require=headgate@v0.0.0 -replace=headgate=/path/to/headgate/examples/clients/go
package main

import (
	"context"
	"fmt"
	"time"

	"headgate"
)

func main() {
	ctx := context.Background()
	client, err := headgate.New("{base}"{key}){from}
	if err != nil {
		panic(err)
	}
	item := map[string]any{{field}: 1, "name": "first"}
	receipt, err := client.Send(ctx, item, headgate.ItemKey({field}))
	if err != nil {
		panic(err)
	}
	state, err := client.Wait(ctx, receipt, 30*time.Second)
	if err != nil {
		panic(err)
	}
	fmt.Println(state.Status)
}
