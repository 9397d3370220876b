// Command gitops reports how GitOps tools judge an object: kstatus (Flux, Helm 4, kubectl-based pipelines), Argo CD's
// health script in a Lua interpreter, and Flux's health check expressions in CEL.
//
// It reads one object as JSON from standard input and prints one JSON object with a verdict for each tool. The flags
// name the files that a user would install: the script and the expressions themselves are what is tested.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// verdicts is what the tools say of one object.
type verdicts struct {
	Kstatus string `json:"kstatus"`
	Message string `json:"kstatusMessage"`
	Argo    string `json:"argo"`
	ArgoSay string `json:"argoMessage"`
	Flux    string `json:"flux"`
}

// expressions are one entry of healthCheckExprs in a Flux Kustomization.
type expressions struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Current    string `json:"current"`
	Failed     string `json:"failed"`
	InProgress string `json:"inProgress"`
}

func main() {
	script := flag.String("argo-health", "", "the health.lua of the object's kind")
	action := flag.String("argo-action", "", "an action.lua; with it the changed object is printed instead of verdicts")
	flux := flag.String("flux", "", "a YAML file with a list healthCheckExprs")
	table := flag.Bool("rbac-table", false, "print what the roles in the files named after the flags grant, as Markdown")
	rules := flag.String("prometheus-rules", "", "check this rule file, and the queries of the dashboards in the files named after the flags")
	queries := flag.Bool("confined-queries", false, "read confined queries from standard input, and check that Prometheus reads them as they are meant")
	flag.Parse()
	if *queries {
		if err := checkQueries(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "gitops:", err)
			os.Exit(1)
		}
		return
	}
	if *rules != "" {
		if err := checkRules(*rules, flag.Args(), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "gitops:", err)
			os.Exit(1)
		}
		return
	}
	if *table {
		if err := rbacTable(flag.Args(), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "gitops:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*script, *action, *flux); err != nil {
		fmt.Fprintln(os.Stderr, "gitops:", err)
		os.Exit(1)
	}
}

func run(script, action, flux string) error {
	input, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var object map[string]any
	// As API machinery decodes: whole numbers are int64, which kstatus insists on.
	if err := utiljson.Unmarshal(input, &object); err != nil {
		return fmt.Errorf("standard input: %w", err)
	}
	if action != "" {
		changed, err := inLua(action, object)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(changed)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: object})
	if err != nil {
		return fmt.Errorf("kstatus: %w", err)
	}
	answer := verdicts{Kstatus: result.Status.String(), Message: result.Message}
	if script != "" {
		health, err := inLua(script, object)
		if err != nil {
			return err
		}
		table, ok := health.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: returns %T, not a table", script, health)
		}
		answer.Argo, _ = table["status"].(string)
		answer.ArgoSay, _ = table["message"].(string)
	}
	if flux != "" {
		if answer.Flux, err = fluxVerdict(flux, object); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

// inLua runs a script as Argo CD does: only the base, table and string libraries, the object as the global `obj`.
func inLua(path string, object any) (any, error) {
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	for name, open := range map[string]lua.LGFunction{
		lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	state.SetGlobal("obj", toLua(state, object))
	if err := state.DoFile(path); err != nil {
		return nil, err
	}
	return fromLua(state.Get(-1)), nil
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case map[string]any:
		table := state.NewTable()
		for key, field := range value {
			table.RawSetString(key, toLua(state, field))
		}
		return table
	case []any:
		table := state.NewTable()
		for _, item := range value {
			table.Append(toLua(state, item))
		}
		return table
	case string:
		return lua.LString(value)
	case int64:
		return lua.LNumber(value)
	case float64:
		return lua.LNumber(value)
	case bool:
		return lua.LBool(value)
	default:
		return lua.LNil
	}
}

func fromLua(value lua.LValue) any {
	switch value := value.(type) {
	case *lua.LTable:
		if value.Len() > 0 {
			list := make([]any, 0, value.Len())
			for index := 1; index <= value.Len(); index++ {
				list = append(list, fromLua(value.RawGetInt(index)))
			}
			return list
		}
		fields := map[string]any{}
		value.ForEach(func(key, field lua.LValue) { fields[key.String()] = fromLua(field) })
		return fields
	case lua.LString:
		return string(value)
	case lua.LNumber:
		return float64(value)
	case lua.LBool:
		return bool(value)
	default:
		return nil
	}
}

// fluxVerdict evaluates as Flux's kustomize-controller does: in progress first, then failed, then current.
func fluxVerdict(path string, object map[string]any) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var file struct {
		HealthCheckExprs []expressions `json:"healthCheckExprs"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	for _, entry := range file.HealthCheckExprs {
		if entry.APIVersion != object["apiVersion"] || entry.Kind != object["kind"] {
			continue
		}
		for _, check := range []struct{ verdict, expression string }{
			{"InProgress", entry.InProgress}, {"Failed", entry.Failed}, {"Current", entry.Current},
		} {
			holds, err := evaluate(check.expression, object)
			if err != nil {
				return "", fmt.Errorf("%s: %s: %w", path, check.verdict, err)
			}
			if holds {
				return check.verdict, nil
			}
		}
		return "Unknown", nil
	}
	return "", fmt.Errorf("%s: no expressions for %v", path, object["kind"])
}

func evaluate(expression string, object map[string]any) (bool, error) {
	if expression == "" {
		return false, nil
	}
	environment, err := cel.NewEnv(
		cel.Variable("apiVersion", cel.StringType), cel.Variable("kind", cel.StringType),
		cel.Variable("metadata", cel.DynType), cel.Variable("spec", cel.DynType), cel.Variable("status", cel.DynType),
	)
	if err != nil {
		return false, err
	}
	parsed, issues := environment.Compile(expression)
	if issues.Err() != nil {
		return false, issues.Err()
	}
	program, err := environment.Program(parsed)
	if err != nil {
		return false, err
	}
	input := map[string]any{"status": map[string]any{}, "spec": map[string]any{}}
	for key, field := range object {
		input[key] = field
	}
	value, _, err := program.Eval(input)
	if err != nil {
		return false, err
	}
	holds, ok := value.Value().(bool)
	if !ok {
		return false, fmt.Errorf("gives %v, not true or false", value)
	}
	return holds, nil
}
