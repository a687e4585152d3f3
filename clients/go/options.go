package client

import (
	"crypto/tls"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Policy is the decision of a client if no server answers.
type Policy int

const (
	// Open allows requests.
	Open Policy = iota
	// Closed denies requests: with ErrNoAnswer, over HTTP with 503, over gRPC with UNAVAILABLE.
	Closed
)

// Options of a Client. The zero value is good for a server with neither `callers` nor TLS.
type Options struct {
	// Token of the caller. If it can change while the client runs, use grpc.WithPerRPCCredentials in
	// DialOptions. If these credentials fail, Check returns their error; calls in the background are
	// repeated.
	Token string
	// TLS; nil: plain text.
	TLS *tls.Config
	// Deadline of a check. Zero: 100 ms.
	Deadline time.Duration
	// WithoutAnswer is the decision if no server answers in time.
	WithoutAnswer Policy
	// MaxWait is the longest wait that a check accepts, unless the check sets its own. Zero: a check
	// does not wait, unless a leaky_bucket delays it.
	MaxWait time.Duration
	// ConnectTimeout is how long New waits for a connection. Zero: 2 s.
	ConnectTimeout time.Duration
	// LeaseTTL is the ttl of the leases of Reserve, which are renewed. Zero: 1 min.
	LeaseTTL time.Duration
	// SettleFor is how long the client tries to store a settlement. Zero: 10 min.
	SettleFor time.Duration
	// MaxSettlements is how many settlements may wait to be stored; further settlements are lost, with
	// a line in the log. Zero: 10,000.
	MaxSettlements int
	// Drain is how long Close waits for settlements and releases. Zero: 5 s.
	Drain time.Duration
	// Overloaded returns whether this process is overloaded. If so, limits with `adapt` learn Overload even
	// from work that went well. Usually Above(Marks{CPU: 0.9}). Nil: never.
	// A panic counts as false.
	Overloaded func() bool
	// DialOptions are applied last.
	DialOptions []grpc.DialOption
}

func (o *Options) setDefaults() {
	for _, it := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&o.Deadline, 100 * time.Millisecond},
		{&o.ConnectTimeout, 2 * time.Second},
		{&o.LeaseTTL, time.Minute},
		{&o.SettleFor, 10 * time.Minute},
		{&o.Drain, 5 * time.Second},
	} {
		if *it.field == 0 {
			*it.field = it.value
		}
	}
	if o.MaxSettlements == 0 {
		o.MaxSettlements = 10_000
	}
	if o.Overloaded == nil {
		o.Overloaded = func() bool { return false }
	}
}

// CheckOption sets a field of a check, other than its domain and attributes.
type CheckOption func(*request)

// Cost sets the units to take. Without it, a check takes 1.
func Cost(units uint64) CheckOption {
	return func(r *request) { r.Cost = &units }
}

// Amount sets an amount that limits may count besides the cost, such as tokens.
func Amount(name string, value uint64) CheckOption {
	return func(r *request) {
		if r.Amounts == nil {
			r.Amounts = map[string]uint64{}
		}
		r.Amounts[name] = value
	}
}

// Peek takes nothing: it asks whether the cost would be admitted.
func Peek() CheckOption {
	return func(r *request) { r.Mode = modePeek }
}

// Charge takes the cost even if the request is denied.
func Charge() CheckOption {
	return func(r *request) { r.Mode = modeCharge }
}

// Refund gives back the cost of an earlier decision, or a part of this cost.
func Refund(of Decision) CheckOption {
	return func(r *request) { r.Mode, r.ChargedAt = modeRefund, of.Response.GetDecidedAt() }
}

// MaxWait sets the longest wait that this check accepts.
func MaxWait(wait time.Duration) CheckOption {
	return func(r *request) { r.MaxWait = durationpb.New(wait) }
}

// MaxDelay is like MaxWait, but only for leaky_bucket limits.
func MaxDelay(delay time.Duration) CheckOption {
	return func(r *request) { r.MaxDelay, r.MaxWait = durationpb.New(delay), nil }
}

// RequestID sets an id, which the answer returns unchanged.
func RequestID(id string) CheckOption {
	return func(r *request) { r.RequestId = id }
}

// LeaseTTL takes the units under a lease with this ttl. Without it, Reserve uses Options.LeaseTTL.
func LeaseTTL(ttl time.Duration) CheckOption {
	return func(r *request) { r.LeaseTtl = durationpb.New(ttl) }
}
