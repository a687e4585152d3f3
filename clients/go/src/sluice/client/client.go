// Package client asks Sluice whether requests are allowed. See clients/go/README.md.
package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/golang/protobuf/proto"
	"github.com/golang/protobuf/ptypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "sluice/v1"
)

// Attributes are the facts of a request.
type Attributes map[string]string

// Policy is the decision of a client if no server answers.
type Policy int

const (
	// Open allows requests.
	Open Policy = iota
	// Closed denies requests.
	Closed
)

// Options of a Client. The zero value waits 100 ms for an answer and is Open.
type Options struct {
	Deadline      time.Duration
	WithoutAnswer Policy
	// The longest wait that a check accepts. Zero: none, except where a leaky_bucket delays.
	MaxWait time.Duration
	// For TLS. None: plain text.
	DialOptions []grpc.DialOption
}

// Client asks one address: "127.0.0.1:8081", "unix:/run/sluice/grpc.sock", "dns:///sluice:8081". It has
// one channel; one client is enough for a process. Safe for concurrent use.
type Client struct {
	channel  *grpc.ClientConn
	stub     pb.RateLimiterClient
	deadline time.Duration
	open     bool
	maxWait  time.Duration
	releases sync.WaitGroup // pending calls
}

// Decision is the result of a check.
type Decision struct {
	Allowed bool
	// Answered is false if the client decided because no server answered.
	Answered bool
	// Wait before the allowed request starts.
	Wait time.Duration
	// RetryAfter says when a retry can succeed; negative: never, or unknown.
	RetryAfter time.Duration
	Response   *pb.CheckLimitResponse
}

// LimitedError is returned for a denied request.
type LimitedError struct{ Decision Decision }

func (e *LimitedError) Error() string { return "rate limited" }

// New creates a client. It connects at the first check.
func New(address string, options Options) (*Client, error) {
	dial := options.DialOptions
	if dial == nil {
		dial = []grpc.DialOption{grpc.WithInsecure()}
	}
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay, reconnect.MaxDelay = 100*time.Millisecond, time.Second
	dial = append(dial,
		grpc.WithNoProxy(),
		grpc.WithDefaultServiceConfig(`{"loadBalancingPolicy":"round_robin"}`),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: reconnect, MinConnectTimeout: 5 * time.Second}))
	channel, err := grpc.Dial(address, dial...)
	if err != nil {
		return nil, err
	}
	if options.Deadline == 0 {
		options.Deadline = 100 * time.Millisecond
	}
	return &Client{channel: channel, stub: pb.NewRateLimiterClient(channel), deadline: options.Deadline,
		open: options.WithoutAnswer == Open, maxWait: options.MaxWait}, nil
}

// Close waits until the server has answered pending releases, for at most 5 s, and closes the channel.
// Call it once, when the client is no longer used.
func (c *Client) Close() error {
	c.releases.Wait()
	return c.channel.Close()
}

// Check asks whether a request of cost 1 is allowed. An error means that the request is invalid, or that
// `ctx` has ended.
func (c *Client) Check(ctx context.Context, domain string, attributes Attributes) (Decision, error) {
	request := &pb.CheckLimitRequest{Domain: domain, Attributes: attributes}
	if c.maxWait > 0 {
		request.MaxWait = ptypes.DurationProto(c.maxWait)
	}
	return c.Ask(ctx, request)
}

// Ask is Check with all fields of the API: cost, mode, max_wait.
func (c *Client) Ask(ctx context.Context, request *pb.CheckLimitRequest) (Decision, error) {
	limited, cancel := context.WithTimeout(ctx, c.deadline)
	defer cancel()
	response, err := c.stub.CheckLimit(limited, request)
	if err == nil {
		return decided(response), nil
	}
	if ctx.Err() != nil {
		return Decision{}, ctx.Err()
	}
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return Decision{}, fmt.Errorf("sluice: %w", err)
	}
	if _, invalid := proto.Marshal(request); invalid != nil { // it was not sent: an attribute is not UTF-8
		return Decision{}, fmt.Errorf("sluice: %w", invalid)
	}
	return Decision{Allowed: c.open, RetryAfter: -1, Response: &pb.CheckLimitResponse{}}, nil
}

// Limited runs `work` if the request is allowed, and returns a *LimitedError if not. If the answer has a
// wait, it sleeps first. A slot of a concurrency limit is held while `work` runs, and always released
// afterwards.
func (c *Client) Limited(ctx context.Context, domain string, attributes Attributes,
	work func(context.Context) error) error {
	decision, err := c.Check(ctx, domain, attributes)
	if err != nil {
		return err
	}
	if !decision.Allowed {
		return &LimitedError{decision}
	}
	defer c.Hold(decision)()
	if err := sleep(ctx, decision.Wait); err != nil {
		return err
	}
	return work(ctx)
}

// Hold renews the decision's lease, if it has one, until the returned function is called, which releases
// it. That function may be called more than once.
func (c *Client) Hold(decision Decision) func() {
	lease := decision.Response.GetLease()
	if lease.GetId() == "" {
		return func() {}
	}
	ttl, _ := ptypes.Duration(lease.GetTtl())
	ended := make(chan struct{})
	go c.keep(lease.GetId(), ttl/3+time.Millisecond, ended)
	var once sync.Once
	release := func() {
		close(ended)
		// In the background: if the answer never arrives, the slot is free after the ttl.
		c.releases.Add(1)
		go func() {
			defer c.releases.Done()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			defer cancel()
			_, _ = c.stub.ReleaseLease(ctx, &pb.ReleaseLeaseRequest{LeaseId: lease.GetId()})
		}()
	}
	return func() { once.Do(release) }
}

func (c *Client) keep(id string, period time.Duration, ended <-chan struct{}) {
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for {
		select {
		case <-ended:
			return
		case <-ticks.C:
		}
		ctx, cancel := context.WithTimeout(context.Background(), period)
		_, err := c.stub.RenewLease(ctx, &pb.RenewLeaseRequest{LeaseId: id})
		cancel()
		if status.Code(err) == codes.NotFound {
			return // the lease is lost; the work continues
		}
	}
}

func decided(response *pb.CheckLimitResponse) Decision {
	decision := Decision{
		Allowed:    response.GetDecision() == pb.Decision_DECISION_ALLOWED,
		Answered:   true,
		RetryAfter: -1,
		Response:   response,
	}
	if response.GetWait() != nil {
		decision.Wait, _ = ptypes.Duration(response.GetWait())
	}
	if response.GetRetryAfter() != nil {
		decision.RetryAfter, _ = ptypes.Duration(response.GetRetryAfter())
	}
	return decision
}

func sleep(ctx context.Context, duration time.Duration) error {
	if duration <= 0 {
		return nil
	}
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
