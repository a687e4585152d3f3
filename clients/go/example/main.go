// A shop whose methods, HTTP requests and gRPC calls are limited. See clients/go/README.md.
//
//	example pay ADDRESS USER...              pays once for each user
//	example first ADDRESS                    checks once, with the default options
//	example crowd ADDRESS THREADS CALLS      pays CALLS times per goroutine; prints how many are allowed
//	example queue ADDRESS CALLS              makes CALLS calls in sequence; prints the time in ms
//	example modes ADDRESS                    charges 5 units, gives 2 back; prints what is left
//	example ask ADDRESS open|closed          checks once for each line of standard input
//	example export ADDRESS                   holds a slot until standard input ends
//	example reserve ADDRESS USER             works three times: takes estimated tokens, and
//	                                         settles with those used
//	example settle ADDRESS USER DRAIN SETTLE_FOR MAX
//	                                         takes tokens, and settles with those used after a line
//	                                         of standard input; DRAIN and SETTLE_FOR are in ms
//	example outcomes ADDRESS                 works eight times, and reports how the work went
//	example serve ADDRESS                    serves HTTP and gRPC until standard input ends
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"

	"example.com/sluice/client"
)

const deadline = time.Minute // long, because an example must work on a busy machine

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func connect(address string, options client.Options) *client.Client {
	if options.Deadline == 0 {
		options.Deadline = deadline
	}
	c, err := client.New(address, options)
	must(err)
	return c
}

func pay(address string, users []string) {
	c := connect(address, client.Options{})
	for _, user := range users {
		err := c.Limited(context.Background(), "shop", client.Attributes{"endpoint": "/pay", "user": user},
			func(context.Context) error {
				fmt.Println(user, "has paid")
				return nil
			})
		var limited *client.LimitedError
		if errors.As(err, &limited) {
			fmt.Printf("%s is denied, retry in %.0f s\n", user, limited.Decision.RetryAfter.Seconds())
		} else {
			must(err)
		}
	}
}

func describe(decision client.Decision) string {
	who, what := "without an answer", "denied"
	if decision.Answered {
		who = "by Sluice"
	}
	if decision.Allowed {
		what = "allowed"
	}
	return what + " " + who
}

func first(address string) {
	c, err := client.New(address, client.Options{})
	must(err)
	decision, err := c.Check(context.Background(), "shop", client.Attributes{"endpoint": "/browse"})
	must(err)
	fmt.Println(describe(decision))
}

func crowd(address string, threads, calls int) {
	c := connect(address, client.Options{})
	var allowed int64
	var all sync.WaitGroup
	for i := 0; i < threads; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for j := 0; j < calls; j++ {
				decision, err := c.Check(context.Background(), "shop",
					client.Attributes{"endpoint": "/pay", "user": "crowd"})
				must(err)
				if decision.Allowed {
					atomic.AddInt64(&allowed, 1)
				}
			}
		}()
	}
	all.Wait()
	fmt.Println(allowed)
}

func queue(address string, calls int) {
	c := connect(address, client.Options{})
	start := time.Now()
	for i := 0; i < calls; i++ {
		must(c.Limited(context.Background(), "shop", client.Attributes{"endpoint": "/queue"},
			func(context.Context) error { return nil }, client.MaxWait(time.Minute)))
	}
	fmt.Println(time.Since(start).Milliseconds())
}

func modes(address string) {
	c := connect(address, client.Options{})
	check := func(options ...client.CheckOption) client.Decision {
		decision, err := c.Check(context.Background(), "shop", client.Attributes{"endpoint": "/tokens"},
			options...)
		must(err)
		return decision
	}
	charged := check(client.Charge(), client.Cost(3), client.Amount("tokens", 2))
	check(client.Refund(charged), client.Cost(2))
	fmt.Println(check(client.Peek()).Response.GetLimits()[0].GetRemaining())
}

func ask(address string, policy client.Policy) {
	c := connect(address, client.Options{Deadline: time.Second, WithoutAnswer: policy})
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		decision, err := c.Check(context.Background(), "shop", client.Attributes{"endpoint": "/browse"})
		must(err)
		fmt.Println(describe(decision))
	}
}

func export(address string) {
	c := connect(address, client.Options{})
	defer c.Close()
	failure := errors.New("the work fails")
	err := c.Limited(context.Background(), "shop", client.Attributes{"endpoint": "/export"},
		func(context.Context) error {
			fmt.Println("held")
			_, _ = io.Copy(io.Discard, os.Stdin)
			return failure
		})
	if err != failure {
		fmt.Println("denied")
		return
	}
	fmt.Println("released")
}

// The model's answer needs more tokens than were taken.
func longer(ctx context.Context, c *client.Client, facts client.Attributes) error {
	reservation, err := c.Reserve(ctx, "shop", facts, client.Amount("tokens", 400))
	if err != nil {
		return err
	}
	defer reservation.Settle(nil)
	reservation.Use(client.Amounts{"tokens": 400})
	if err := reservation.Extend(ctx, client.Amounts{"tokens": 300}); err != nil {
		return err
	}
	reservation.Use(client.Amounts{"tokens": 450})
	return nil
}

var errWork = errors.New("the work fails")

func aborted(ctx context.Context, c *client.Client, facts client.Attributes) error {
	reservation, err := c.Reserve(ctx, "shop", facts, client.Amount("tokens", 100))
	if err != nil {
		return err
	}
	defer reservation.Settle(nil)
	reservation.Use(client.Amounts{"tokens": 50})
	return errWork
}

// Takes all tokens that are left, so a further part is denied. A settled reservation cannot be
// extended.
func stopped(ctx context.Context, c *client.Client, facts client.Attributes) error {
	reservation, err := c.Reserve(ctx, "shop", facts, client.Amount("tokens", 500))
	if err != nil {
		return err
	}
	defer reservation.Settle(nil)
	var limited *client.LimitedError
	if err := reservation.Extend(ctx, client.Amounts{"tokens": 1}); !errors.As(err, &limited) {
		return err
	}
	fmt.Println("denied")
	reservation.Settle(client.Amounts{"tokens": 20})
	if err := reservation.Extend(ctx, client.Amounts{"tokens": 1}); err != client.ErrSettled {
		return fmt.Errorf("extended after Settle: %v", err)
	}
	return nil
}

func reserve(address, user string) {
	facts := client.Attributes{"endpoint": "/model", "user": user}
	for _, prompt := range []func(context.Context, *client.Client, client.Attributes) error{
		longer, aborted, stopped} {
		c := connect(address, client.Options{Drain: deadline})
		if err := prompt(context.Background(), c, facts); err != errWork {
			must(err)
		}
		must(c.Close())
	}
}

func settle(address, user string, bounds []string) {
	c := connect(address, client.Options{
		LeaseTTL:       6 * time.Second,
		Drain:          time.Duration(number(bounds[0])) * time.Millisecond,
		SettleFor:      time.Duration(number(bounds[1])) * time.Millisecond,
		MaxSettlements: number(bounds[2]),
	})
	ctx := context.Background()
	reservation, err := c.Reserve(ctx, "shop",
		client.Attributes{"endpoint": "/model", "user": user}, client.Amount("tokens", 300))
	must(err)
	must(reservation.Extend(ctx, client.Amounts{"tokens": 100}))
	fmt.Println("held")
	bufio.NewScanner(os.Stdin).Scan()
	reservation.Settle(client.Amounts{"tokens": 100})
	fmt.Println("settled")
	var lost client.LostSettlements
	if err := c.Close(); !errors.As(err, &lost) {
		must(err)
	}
	fmt.Println(int(lost), "lost")
}

func outcomes(address string) {
	ctx, facts := context.Background(), client.Attributes{"endpoint": "/database"}
	c := connect(address, client.Options{Drain: deadline})
	refused := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, failure := range []error{nil, context.DeadlineExceeded, refused, errWork} {
		err := c.Limited(ctx, "shop", facts, func(context.Context) error { return failure })
		if err != failure {
			must(err)
		}
	}
	must(c.Limited(ctx, "shop", facts, func(ctx context.Context) error {
		client.WorkOf(ctx).Report(client.Overload)
		return nil
	}))
	must(c.Limited(ctx, "shop", facts, func(ctx context.Context) error {
		client.WorkOf(ctx).ReportDuration(time.Minute)
		return nil
	}))
	reservation, err := c.Reserve(ctx, "shop", facts)
	must(err)
	reservation.ReportError(errWork)
	reservation.Settle(nil)
	must(c.Close())
	busy := connect(address, client.Options{Drain: deadline, Overloaded: client.Above(client.Marks{Memory: 1e-9})})
	must(busy.Limited(ctx, "shop", facts, func(context.Context) error { return nil }))
	must(busy.Close())
	fmt.Println("done")
}

func serve(address string) {
	c := connect(address, client.Options{WithoutAnswer: client.Closed})
	byUser := func(ctx context.Context) client.Attributes {
		call, _ := metadata.FromIncomingContext(ctx)
		if users := call.Get("user"); len(users) > 0 {
			return client.Attributes{"user": users[0]}
		}
		return nil
	}
	server := grpc.NewServer(
		grpc.UnaryInterceptor(client.UnaryServerInterceptor(c, "shop", byUser)),
		grpc.StreamInterceptor(client.StreamServerInterceptor(c, "shop", byUser)))
	healthpb.RegisterHealthServer(server, health.NewServer())
	calls, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go func() { must(server.Serve(calls)) }()

	welcome := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "welcome") })
	requests, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	go func() { must(http.Serve(requests, client.Middleware(c, "shop", nil)(welcome))) }()

	fmt.Printf("http=%d grpc=%d\n", requests.Addr().(*net.TCPAddr).Port, calls.Addr().(*net.TCPAddr).Port)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must(err)
	return value
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage: example pay|first|crowd|queue|modes|ask|export|reserve|settle|outcomes|serve ADDRESS [ARGUMENT...]")
	}
	address, more := os.Args[2], os.Args[3:]
	switch os.Args[1] {
	case "pay":
		pay(address, more)
	case "first":
		first(address)
	case "crowd":
		crowd(address, number(more[0]), number(more[1]))
	case "queue":
		queue(address, number(more[0]))
	case "modes":
		modes(address)
	case "ask":
		policy := client.Open
		if more[0] == "closed" {
			policy = client.Closed
		}
		ask(address, policy)
	case "export":
		export(address)
	case "reserve":
		reserve(address, more[0])
	case "settle":
		settle(address, more[0], more[1:])
	case "outcomes":
		outcomes(address)
	case "serve":
		serve(address)
	}
}
