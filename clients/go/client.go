// Package client asks Sluice whether requests are allowed. See README.md.
package client

//go:generate protoc -I ../../proto --go_out=. --go-grpc_out=. --go_opt=Msluice/v1/rate_limiter.proto=./sluicev1 --go-grpc_opt=Msluice/v1/rate_limiter.proto=./sluicev1 sluice/v1/rate_limiter.proto

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "example.com/sluice/client/sluicev1"
)

type request = pb.CheckLimitRequest
type limitStatus = pb.LimitStatus

const (
	modePeek   = pb.Mode_MODE_PEEK
	modeCharge = pb.Mode_MODE_CHARGE
	modeRefund = pb.Mode_MODE_REFUND

	sourceFallback = pb.Source_SOURCE_FALLBACK
)

// A check is never sent twice, since it may have been counted. Calls that end or renew a lease are
// idempotent, so gRPC may repeat them.
const serviceConfig = `{
	"loadBalancingConfig": [{"round_robin": {}}],
	"methodConfig": [{
		"name": [{"service": "sluice.v1.RateLimiter", "method": "RenewLease"},
			{"service": "sluice.v1.RateLimiter", "method": "ReleaseLease"},
			{"service": "sluice.v1.RateLimiter", "method": "SettleLease"}],
		"waitForReady": true,
		"retryPolicy": {"maxAttempts": 5, "initialBackoff": "0.1s", "maxBackoff": "1s",
			"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}
	}]
}`

// ErrNoAnswer matches the error of a request that a Closed client has denied because no server
// answered.
var ErrNoAnswer = errors.New("no server answered")

// Attributes are the facts of a request.
type Attributes map[string]string

// Client asks one address: "127.0.0.1:8081", "unix:/run/sluice/grpc.sock", "dns:///sluice:8081". It has
// one channel; one client is enough for a process. Safe for concurrent use.
type Client struct {
	channel  *grpc.ClientConn
	stub     pb.RateLimiterClient
	deadline time.Duration
	open     bool
	maxWait  time.Duration
	leaseTTL time.Duration
	drain    time.Duration
	leases   leases

	overloaded func() bool
}

// Decision is the result of a check.
type Decision struct {
	Allowed bool
	// Answered is false if the client decided because no server answered.
	Answered bool
	// Failure says why no server answered.
	Failure error
	// Wait is the time that must pass before the allowed request starts.
	Wait time.Duration
	// RetryAfter says when a retry can succeed; negative: never, or unknown.
	RetryAfter time.Duration
	Response   *pb.CheckLimitResponse
	// The work that the decision allows.
	*Work
}

// LimitedError is returned for a denied request.
type LimitedError struct{ Decision Decision }

func (e *LimitedError) Error() string {
	if e.Decision.Answered {
		return "rate limited"
	}
	return fmt.Sprintf("%v: %v", ErrNoAnswer, e.Decision.Failure)
}

// Is lets errors.Is(err, ErrNoAnswer) distinguish the lack of an answer from a denial by a server.
func (e *LimitedError) Is(target error) bool {
	return target == ErrNoAnswer && !e.Decision.Answered
}

// New creates a client. It waits for a connection for at most Options.ConnectTimeout, then
// continues to connect in the background.
func New(address string, options Options) (*Client, error) {
	options.setDefaults()
	reconnect := backoff.DefaultConfig
	reconnect.BaseDelay, reconnect.MaxDelay = 100*time.Millisecond, time.Second
	dial := []grpc.DialOption{
		grpc.WithNoProxy(),
		grpc.WithDefaultServiceConfig(serviceConfig),
		// A server that hangs is noticed by PINGs, also while there are no calls.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: 10 * time.Second, Timeout: 2 * time.Second, PermitWithoutStream: true}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 5 * time.Second}),
	}
	if options.TLS != nil {
		dial = append(dial, grpc.WithTransportCredentials(credentials.NewTLS(options.TLS)))
	} else {
		dial = append(dial, grpc.WithInsecure())
	}
	if options.Token != "" {
		dial = append(dial, grpc.WithPerRPCCredentials(bearer(options.Token)))
	}
	channel, err := grpc.Dial(address, append(dial, options.DialOptions...)...)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), options.ConnectTimeout)
	defer cancel()
	for state := channel.GetState(); state != connectivity.Ready && channel.WaitForStateChange(ctx, state); {
		state = channel.GetState()
	}
	stub := pb.NewRateLimiterClient(channel)
	return &Client{
		channel: channel, stub: stub, deadline: options.Deadline, open: options.WithoutAnswer == Open,
		maxWait: options.MaxWait, leaseTTL: options.LeaseTTL, drain: options.Drain,
		leases: leases{stub: stub, settleFor: options.SettleFor, maxSettlements: options.MaxSettlements,
			closed: make(chan struct{})},
		overloaded: unlessPanics(options.Overloaded),
	}, nil
}

type bearer string

func (b bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// The token may be sent without TLS, for example to a proxy on the same machine.
func (b bearer) RequireTransportSecurity() bool { return false }

// LostSettlements is the error of Close if settlements were not stored; the value is their number.
// Their leases stay charged as taken.
type LostSettlements int

func (n LostSettlements) Error() string {
	return fmt.Sprintf("sluice: %d settlements are lost", int(n))
}

// Close waits until settlements are stored and releases are answered, for at most Options.Drain.
// Then it closes the channel. Call it once, when the client is no longer used.
func (c *Client) Close() error {
	lost := c.leases.close(c.drain)
	if err := c.channel.Close(); lost == 0 {
		return err
	}
	return LostSettlements(lost)
}

// Check asks whether a request is allowed. An error means that the request is invalid, that the
// caller may not make it, or that `ctx` has ended.
func (c *Client) Check(ctx context.Context, domain string, attributes Attributes,
	options ...CheckOption) (Decision, error) {
	return c.decide(ctx, c.request(domain, attributes, options))
}

func (c *Client) request(domain string, attributes Attributes, options []CheckOption) *request {
	request := &request{Domain: domain, Attributes: attributes}
	if c.maxWait > 0 {
		request.MaxWait = durationpb.New(c.maxWait)
	}
	for _, option := range options {
		option(request)
	}
	return request
}

func (c *Client) decide(ctx context.Context, request *request) (Decision, error) {
	limited, cancel := context.WithTimeout(ctx, c.deadline)
	defer cancel()
	response, err := c.stub.CheckLimit(limited, request)
	if err == nil {
		return decided(response), nil
	}
	if ctx.Err() != nil {
		return Decision{}, ctx.Err()
	}
	if isMistake(err) {
		return Decision{}, fmt.Errorf("sluice: %w", err)
	}
	if _, invalid := proto.Marshal(request); invalid != nil { // it was not sent: an attribute is not UTF-8
		return Decision{}, fmt.Errorf("sluice: %w", invalid)
	}
	return Decision{Allowed: c.open, Failure: err, RetryAfter: -1,
		Response: &pb.CheckLimitResponse{}, Work: &Work{}}, nil
}

// isMistake says whether the error is the caller's. After any other error, the client decides.
func isMistake(err error) bool {
	switch status.Code(err) {
	case codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.Unimplemented:
		return true
	}
	return false
}

// Limited runs `work` if the request is allowed, and returns a *LimitedError if not. If the answer
// has a wait, Limited sleeps first. A slot of a concurrency limit is held while `work` runs, and
// always released afterward.
func (c *Client) Limited(ctx context.Context, domain string, attributes Attributes,
	work func(context.Context) error, options ...CheckOption) error {
	decision, err := c.Check(ctx, domain, attributes, options...)
	if err != nil {
		return err
	}
	if !decision.Allowed {
		return &LimitedError{decision}
	}
	return c.holding(ctx, decision, work)
}

// holding sleeps for the decision's wait, and holds its slot while `work` runs.
func (c *Client) holding(ctx context.Context, decision Decision, work func(context.Context) error) (err error) {
	release := c.Hold(decision)
	err = errPanic // unless `work` returns
	defer func() { release(err) }()
	if waiting := sleep(ctx, decision.Wait); waiting != nil {
		err = waiting
	} else {
		err = work(context.WithValue(ctx, workKey{}, decision.Work))
	}
	return err
}

// Hold renews the decision's lease, if it has one, until the returned function is called. That
// function takes the error of the work, and releases the lease. Calling it again does nothing.
func (c *Client) Hold(decision Decision) func(error) {
	lease := decision.Response.GetLease()
	if lease.GetId() == "" {
		return func(error) {}
	}
	stop := c.leases.renew(lease)
	var once sync.Once
	return func(err error) {
		once.Do(func() {
			stop()
			c.leases.release(lease.GetId(), decision.ended(err, c.overloaded))
		})
	}
}

func decided(response *pb.CheckLimitResponse) Decision {
	decision := Decision{
		Allowed:    response.GetDecision() == pb.Decision_DECISION_ALLOWED,
		Answered:   true,
		RetryAfter: -1,
		Response:   response,
		Work:       &Work{},
	}
	if response.GetWait() != nil {
		decision.Wait = response.GetWait().AsDuration()
	}
	if response.GetRetryAfter() != nil {
		decision.RetryAfter = response.GetRetryAfter().AsDuration()
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
