// Sends so many items through a batcher, as the README shows; prints how many were accepted.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"

	"headgate"
)

type customer struct {
	Name string `json:"name"`
	City string `json:"city"`
}

type order struct {
	ID       int      `json:"id"`
	Customer customer `json:"customer"`
	Total    float64  `json:"total"`
	Status   string   `json:"status"`
}

func main() {
	ctx := context.Background()
	count, err := strconv.Atoi(os.Args[1])
	check(err)
	client, err := headgate.New("", "")
	check(err)
	batcher, err := client.Batcher(headgate.BatcherOptions{
		ItemKey:    "id",
		OnRejected: func(items []json.RawMessage, e *headgate.Error) { log.Fatal(e) },
	})
	check(err)
	for number := range count {
		check(batcher.Add(ctx, order{number, customer{"Ada Lovelace", "London"}, 12.5, "paid"}))
	}
	batcher.Close(ctx)
	fmt.Println(batcher.Stats().Accepted)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
