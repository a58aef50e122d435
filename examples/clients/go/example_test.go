// What a program looks like. Compiled, and not run: there is no daemon here.

package headgate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"time"

	"headgate"
)

func Example() {
	ctx := context.Background()
	client, err := headgate.New("http://127.0.0.1:8080", "ik_live_…")
	if err != nil {
		log.Fatal(err)
	}
	receipt, err := client.Send(ctx, map[string]any{"id": 7, "total": json.Number("12.50")}, headgate.ItemKey("id"))
	var refused *headgate.Error
	if errors.As(err, &refused) {
		log.Fatal(refused.Code, refused.Message)
	}
	state, err := client.Wait(ctx, receipt, 10*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state.Status)
}

func ExampleClient_Batcher() {
	client, err := headgate.New("", "")
	if err != nil {
		log.Fatal(err)
	}
	b, err := client.Batcher(headgate.BatcherOptions{
		ItemKey:    "sensor.id",
		LatestOnly: true,
		OnRejected: func(items []json.RawMessage, e *headgate.Error) { log.Printf("%d items: %v", len(items), e) },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if left := b.Close(ctx); !left.Done {
			log.Printf("%d items were not accepted", left.Queued+left.InFlight)
		}
	}()
	type reading struct {
		Sensor struct {
			ID string `json:"id"`
		} `json:"sensor"`
		Value float64   `json:"value"`
		At    time.Time `json:"at"`
	}
	if err := b.Add(context.Background(), reading{Value: 21.5, At: time.Now()}); err != nil {
		log.Print(err)
	}
}

func ExampleReader_Follow() {
	reader, err := headgate.NewReader("http://127.0.0.1:8080", "rk_live_…")
	if err != nil {
		log.Fatal(err)
	}
	follow := reader.Follow(context.Background(), "orders")
	for message := range follow.C {
		for _, item := range message.Items {
			fmt.Println(message.Type, item.Key, string(item.Fields))
		}
	}
	log.Print(follow.Err())
}
