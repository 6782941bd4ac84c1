package stub

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

const referencePrefix = "dify-file-ref:"

var errInvalidReference = errors.New("upload response has an invalid reference")

// recordID returns the record that a canonical file reference names: the
// prefix and padded URL-safe base64 of a JSON object with a record_id.
func recordID(reference string) (string, error) {
	encoded, ok := strings.CutPrefix(reference, referencePrefix)
	// The decoder would skip line ends.
	if !ok || strings.ContainsAny(encoded, "\r\n") {
		return "", errInvalidReference
	}
	data, err := base64.URLEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return "", errInvalidReference
	}
	var fields map[string]any
	if json.Unmarshal(data, &fields) != nil {
		return "", errInvalidReference
	}
	id, _ := fields["record_id"].(string)
	if id == "" {
		return "", errInvalidReference
	}
	return id, nil
}
