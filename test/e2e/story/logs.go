package story

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// jsonAlone is an error where a line of the logs of controller and agents in a folder is no JSON object with a message.
func jsonAlone(folder string) error {
	agents, err := filepath.Glob(filepath.Join(folder, "agent-*.log"))
	if err == nil && len(agents) == 0 {
		err = fmt.Errorf("no agent has a log in %s", folder)
	}
	for _, file := range append(agents, filepath.Join(folder, "ccm.log")) {
		err = errors.Join(err, jsonLines(file))
	}
	return err
}

func jsonLines(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if len(text) == 0 {
		return fmt.Errorf("%s is empty", file)
	}
	for line := range strings.Lines(string(text)) {
		var object struct{ Msg *string }
		if err := json.Unmarshal([]byte(line), &object); err != nil || object.Msg == nil {
			return fmt.Errorf("%s: this line is no JSON object with a message: %s", filepath.Base(file), line)
		}
	}
	return nil
}
