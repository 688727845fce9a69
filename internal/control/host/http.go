package host

import "net/http"

// Handler serves the run API.
func (s *Service) Handler(authenticate func(*http.Request) (principal string, err error)) http.Handler {
	return http.NotFoundHandler()
}
