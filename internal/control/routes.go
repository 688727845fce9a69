package control

import (
	"slices"
	"strings"

	"github.com/rivumi/rivumi/internal/contract"
	"github.com/rivumi/rivumi/internal/token"
)

// Bounds of small request bodies, in bytes.
const (
	smallBody = 16 << 10
	textBody  = 256 << 10
	askBody   = 512 << 10
	batchBody = 4 << 20
)

// handler decides one request of a route.
type handler func(*visit) (Response, []Effect, error)

type route struct {
	RouteInfo
	body    func(contract.Profile) int64
	streams bool
	writes  bool
	handle  handler
}

func bytesOf(n int64) func(contract.Profile) int64 {
	return func(contract.Profile) int64 { return n }
}

func bodyOf(p contract.Profile) int64  { return p.BodyBytes }
func modelOf(p contract.Profile) int64 { return max(p.BodyBytes, p.ModelResponseBytes) }

// routeTable lists every route of the API. {id} is a run; it is checked before anything is opened.
func routeTable() []route {
	const (
		run  = "/v1/runs/{id}"
		work = "/internal/v1/runs/{id}"
	)
	info := func(n Name, method, pattern string, a token.Audience, summary string) RouteInfo {
		return RouteInfo{Name: n, Method: method, Pattern: pattern, Audience: a, Summary: summary}
	}
	return []route{
		{RouteInfo: info(RouteCreate, "POST", "/v1/runs", "", "Start a run"), body: bodyOf, writes: true, handle: (*visit).create},
		{RouteInfo: info(RouteList, "GET", "/v1/runs", "", "List runs, newest first"), handle: (*visit).list},
		{RouteInfo: info(RouteGet, "GET", run, "", "Read a run"), handle: (*visit).get},
		{RouteInfo: info(RouteDelete, "DELETE", run, "", "Remove an ended run"), writes: true, handle: (*visit).remove},
		{RouteInfo: info(RouteEvents, "GET", run+"/events", "", "Read or follow the log"), handle: (*visit).events},
		{RouteInfo: info(RouteApprovals, "GET", run+"/approvals", "", "List approvals"), handle: (*visit).approvals},
		{RouteInfo: info(RouteDecide, "POST", run+"/approvals/{approval}", "", "Answer an approval"), body: bytesOf(smallBody), writes: true, handle: (*visit).decide},
		{RouteInfo: info(RouteCancel, "POST", run+"/cancel", "", "Ask for the end of a run"), body: bytesOf(smallBody), writes: true, handle: (*visit).cancel},
		{RouteInfo: info(RouteSend, "POST", run+"/messages", "", "Send the agent a message"), body: bytesOf(textBody), writes: true, handle: (*visit).send},
		{RouteInfo: info(RouteArtifacts, "GET", run+"/artifacts", "", "List artifacts"), handle: (*visit).artifacts},
		{RouteInfo: info(RouteArtifact, "GET", run+"/artifacts/{name}", "", "Read an artifact"), handle: (*visit).artifact},
		{RouteInfo: info(RouteUpload, "POST", "/v1/uploads", "", "Upload a source"), streams: true, handle: (*visit).upload},
		{RouteInfo: info(RouteUploadKnown, "HEAD", "/v1/uploads/by-digest/{digest}", "", "Ask whether a source is there already"), handle: (*visit).uploadKnown},
		{RouteInfo: info(RouteChat, "POST", "/internal/v1/chat/completions", token.Model, "Model call, Chat Completions wire"), body: modelOf, writes: true, handle: (*visit).chat},
		{RouteInfo: info(RouteMessages, "POST", "/internal/v1/messages", token.Model, "Model call, Messages wire"), body: modelOf, writes: true, handle: (*visit).messages},
		{RouteInfo: info(RouteAppend, "POST", work+"/events", token.Events, "Append events"), body: bytesOf(batchBody), writes: true, handle: (*visit).append},
		{RouteInfo: info(RouteReadLog, "GET", work+"/events", token.Events, "Read the run's own log"), handle: (*visit).events},
		{RouteInfo: info(RoutePutArtifact, "PUT", work+"/artifacts/{name}", token.Events, "Store an artifact"), streams: true, handle: (*visit).putArtifact},
		{RouteInfo: info(RouteResult, "POST", work+"/result", token.Events, "Report the end"), body: bytesOf(batchBody), writes: true, handle: (*visit).result},
		{RouteInfo: info(RouteHeartbeat, "POST", work+"/heartbeat", token.Events, "Keep the lease, take messages"), body: bytesOf(smallBody), writes: true, handle: (*visit).heartbeat},
		{RouteInfo: info(RouteAsk, "POST", work+"/approvals", token.Approvals, "Ask for an approval"), body: bytesOf(askBody), writes: true, handle: (*visit).ask},
		{RouteInfo: info(RouteAwaitDecided, "GET", work+"/approvals/{approval}", token.Approvals, "Wait for a decision"), handle: (*visit).await},
	}
}

// Routes is the route table, in a stable order.
func Routes() []RouteInfo {
	var out []RouteInfo
	for _, r := range routeTable() {
		out = append(out, r.RouteInfo)
	}
	return out
}

// MaxPath bounds the path of a request, in bytes.
const MaxPath = 1024

// Route says what a request is for, before any record is opened: the caller is authenticated
// first, the path matched, and the run's id checked against its MAC, so that a made-up one never
// reaches a store. Every error has a kind; [Refuse] renders it. Handle must get the same env.
func (c *Core) Route(env Env, r Request) (Match, error) {
	v, err := c.visit(env, r)
	if err != nil {
		return Match{}, err
	}
	return v.m, nil
}

// visit authenticates a request and finds its route.
func (c *Core) visit(env Env, r Request) (*visit, error) {
	v := &visit{c: c, env: env, r: r}
	internal := strings.HasPrefix(r.Path, "/internal/")
	if !internal && r.Principal == "" {
		return nil, contract.Errorf(contract.KindUnauthorized, "a valid API token is needed")
	}
	found, params, err := c.find(r)
	if err != nil {
		return nil, err
	}
	v.route = found
	v.m = Match{Route: found.Name, Streams: found.streams, Writes: found.writes, Run: contract.RunID(params["id"])}
	if found.body != nil {
		v.m.BodyBytes = found.body(c.cfg.Profile)
	}
	for _, name := range []string{"approval", "name", "digest"} {
		if p, ok := params[name]; ok {
			v.m.Param = p
		}
	}
	if internal {
		err = v.authorise()
	} else if found.Name == RouteCreate {
		v.m.Run, err = c.idOfCreate(env, r)
	} else if _, named := params["id"]; named && !c.Genuine(v.m.Run) {
		err = notFound()
	}
	return v, err
}

func (c *Core) idOfCreate(env Env, r Request) (contract.RunID, error) {
	key, given := r.Header["idempotency-key"]
	if given && key == "" {
		return "", contract.Errorf(contract.KindInvalid, "idempotency key is empty")
	}
	if err := checkIdempotencyKey(key); err != nil {
		return "", err
	}
	return c.RunIDFor(env, r.Principal, key), nil
}

// methodError is a refusal that knows what would be allowed.
type methodError struct {
	err   *contract.Error
	allow string
}

// Error implements error.
func (e methodError) Error() string { return e.err.Error() }

// Unwrap gives the error with its kind.
func (e methodError) Unwrap() error { return e.err }

func (c *Core) find(r Request) (route, map[string]string, error) {
	var allow []string
	if len(r.Path) <= MaxPath {
		for _, candidate := range c.routes {
			params, ok := matchPath(candidate.Pattern, r.Path)
			switch {
			case !ok:
			case candidate.Method == r.Method:
				return candidate, params, nil
			case !slices.Contains(allow, candidate.Method):
				allow = append(allow, candidate.Method)
			}
		}
	}
	if len(allow) == 0 {
		return route{}, nil, contract.Errorf(contract.KindNotFound, "no such route")
	}
	return route{}, nil, methodError{
		err:   contract.Errorf(contract.KindMethodNotAllowed, "the route takes %s", strings.Join(allow, ", ")),
		allow: strings.Join(allow, ", "),
	}
}

// matchPath matches segment by segment; a parameter takes one segment that is not empty.
func matchPath(pattern, path string) (map[string]string, bool) {
	want, got := strings.Split(pattern, "/"), strings.Split(path, "/")
	if len(want) != len(got) {
		return nil, false
	}
	var params map[string]string
	for i, w := range want {
		if !strings.HasPrefix(w, "{") {
			if w != got[i] {
				return nil, false
			}
			continue
		}
		if got[i] == "" {
			return nil, false
		}
		if params == nil {
			params = map[string]string{}
		}
		params[strings.Trim(w, "{}")] = got[i]
	}
	return params, true
}

// authorise checks the run token of an internal route. A token of another run, or one that the
// channel contradicts, is refused like a forged one.
func (v *visit) authorise() error {
	claims, err := v.c.keys.Verify(bearer(v.r), v.route.Audience, v.env.Now)
	if err != nil {
		return err
	}
	inactive := contract.Errorf(contract.KindInactiveToken, "run token is not active")
	if v.m.Run != "" && v.m.Run != claims.Run || !v.c.Genuine(claims.Run) {
		return inactive
	}
	if v.r.ChannelRun != "" && v.r.ChannelRun != claims.Run {
		return inactive
	}
	v.m.Run, v.claims = claims.Run, claims
	return nil
}

// bearer gives the token of a request. Clients of the Messages wire send it as x-api-key.
func bearer(r Request) string {
	h := r.Header["authorization"]
	if scheme, tok, ok := strings.Cut(h, " "); ok && strings.EqualFold(scheme, "bearer") {
		return strings.TrimSpace(tok)
	}
	if h == "" {
		return r.Header["x-api-key"]
	}
	return ""
}
