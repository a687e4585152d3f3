package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Middleware limits the requests of an http.Handler. Each request is checked with the attributes
// `endpoint` (the path), `method` and `client_ip`, and with those that `attributes` returns
// (`attributes` may be nil). A denied request gets 429, and Retry-After if a retry can succeed. If
// no server answers and the client is Closed, a request gets 503. If limits were checked, the
// response has RateLimit and RateLimit-Policy. WorkOf(r.Context()) is the request's work.
func Middleware(c *Client, domain string, attributes func(*http.Request) Attributes,
	options ...CheckOption) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			decision, err := c.Check(r.Context(), domain, factsOf(r, attributes), options...)
			if err != nil {
				http.Error(w, "no decision", http.StatusInternalServerError)
				return
			}
			decision.SetHeaders(w.Header())
			if !decision.Allowed && !decision.Answered {
				http.Error(w, "no decision", http.StatusServiceUnavailable)
				return
			}
			if !decision.Allowed {
				http.Error(w, "too many requests", http.StatusTooManyRequests)
				return
			}
			_ = c.holding(r.Context(), decision, func(ctx context.Context) error {
				seen := &statusWriter{ResponseWriter: w}
				next.ServeHTTP(seen, r.WithContext(ctx))
				return seen.overload()
			})
		})
	}
}

// statusWriter notes the status of the response.
type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Flush is for streams.
func (w *statusWriter) Flush() {
	if flusher, ok := w.ResponseWriter.(http.Flusher); ok {
		flusher.Flush()
	}
}

// Hijack is for WebSocket.
func (w *statusWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if hijacker, ok := w.ResponseWriter.(http.Hijacker); ok {
		return hijacker.Hijack()
	}
	return nil, nil, errors.New("the connection cannot be taken over")
}

func (w *statusWriter) overload() error {
	if w.status == http.StatusTooManyRequests || w.status >= 500 {
		return httpError(w.status)
	}
	return nil
}

func factsOf(r *http.Request, more func(*http.Request) Attributes) Attributes {
	facts := Attributes{"endpoint": r.URL.Path, "method": r.Method}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		facts["client_ip"] = host
	}
	if more != nil {
		for name, value := range more(r) {
			facts[name] = value
		}
	}
	return facts
}

// SetHeaders sets Retry-After of a denial, and the headers of draft-ietf-httpapi-ratelimit-headers.
func (decision Decision) SetHeaders(headers http.Header) {
	var policies, states []string
	for _, limit := range decision.Response.GetLimits() {
		if limit.GetShadow() || limit.Limit == nil {
			continue
		}
		name := nameOf(limit)
		reset := limit.GetResetAfter().AsDuration()
		policies = append(policies, fmt.Sprintf("%s;q=%d", name, limit.GetLimit()))
		states = append(states, fmt.Sprintf("%s;r=%d;t=%d", name, limit.GetRemaining(), ceil(reset)))
	}
	if policies != nil {
		headers.Set("RateLimit-Policy", strings.Join(policies, ", "))
		headers.Set("RateLimit", strings.Join(states, ", "))
	}
	if decision.RetryAfter >= 0 {
		seconds := ceil(decision.RetryAfter)
		if seconds < 1 {
			seconds = 1
		}
		headers.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
}

func ceil(duration time.Duration) int64 {
	return int64((duration + time.Second - 1) / time.Second)
}

// The rule's name as an RFC 8941 string, which is ASCII. If the limit is not the rule's first, "/"
// and the limit's index follow the name.
func nameOf(limit *limitStatus) string {
	ascii := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, limit.GetRule())
	name := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(ascii)
	if limit.GetIndex() > 0 {
		name = fmt.Sprintf("%s/%d", name, limit.GetIndex())
	}
	return `"` + name + `"`
}
