package client

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// CallAttributes returns attributes from a call's context. The interceptors add `endpoint`, the
// call's full method.
type CallAttributes func(context.Context) Attributes

// UnaryServerInterceptor limits the unary methods of a gRPC server by rules, without changing them. A
// denied call ends with RESOURCE_EXHAUSTED; if a retry can succeed, `grpc-retry-pushback-ms` says
// when. If no server answers and the client is Closed, the call ends with UNAVAILABLE.
func UnaryServerInterceptor(c *Client, domain string, attributes CallAttributes,
	options ...CheckOption) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, request interface{}, info *grpc.UnaryServerInfo,
		handler grpc.UnaryHandler) (answer interface{}, err error) {
		err = c.limitCall(ctx, domain, info.FullMethod, attributes, options,
			func(trailer metadata.MD) { _ = grpc.SetTrailer(ctx, trailer) },
			func(ctx context.Context) error {
				answer, err = handler(ctx, request)
				return err
			})
		return answer, err
	}
}

// StreamServerInterceptor does the same for streams, with one check for each stream.
func StreamServerInterceptor(c *Client, domain string, attributes CallAttributes,
	options ...CheckOption) grpc.StreamServerInterceptor {
	return func(server interface{}, stream grpc.ServerStream, info *grpc.StreamServerInfo,
		handler grpc.StreamHandler) error {
		return c.limitCall(stream.Context(), domain, info.FullMethod, attributes, options, stream.SetTrailer,
			func(ctx context.Context) error { return handler(server, &limitedStream{stream, ctx}) })
	}
}

// limitedStream is a stream whose context contains its Work.
type limitedStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s *limitedStream) Context() context.Context { return s.ctx }

func (c *Client) limitCall(ctx context.Context, domain, method string, attributes CallAttributes,
	options []CheckOption, setTrailer func(metadata.MD), call func(context.Context) error) error {
	facts := Attributes{}
	if attributes != nil {
		for name, value := range attributes(ctx) {
			facts[name] = value
		}
	}
	facts["endpoint"] = method
	called := false
	err := c.Limited(ctx, domain, facts, func(ctx context.Context) error {
		called = true
		return call(ctx)
	}, options...)
	limited, denied := err.(*LimitedError)
	if !denied {
		if err != nil && err == ctx.Err() {
			return status.FromContextError(err).Err()
		}
		if err != nil && !called { // an error of this server, not of its caller
			return status.Error(codes.Internal, "no decision")
		}
		return err
	}
	if !limited.Decision.Answered {
		return status.Error(codes.Unavailable, "no decision")
	}
	if after := limited.Decision.RetryAfter; after >= 0 {
		milliseconds := (after + time.Millisecond - 1) / time.Millisecond
		setTrailer(metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(int64(milliseconds), 10)))
	}
	return status.Error(codes.ResourceExhausted, "rate limited")
}
