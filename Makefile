# The entry point to everything a developer does here. `make` alone lists it.
# HEADROOM_CACHE moves the cache of built tools and control planes (default: .cache).

CARGO_FLAGS := --workspace --features headroom/failpoints --locked
# The program behind soak-mutants stands outside of the workspace.
MUTANTS_TOOL := --manifest-path hack/mutants/Cargo.toml --target-dir $(or $(CARGO_TARGET_DIR),target)/soak/mutants/tool --locked

.DEFAULT_GOAL := help
.PHONY: help check test test-all test-matrix soak soak-tests soak-removals soak-fuzz soak-seeds soak-mutants soak-shrink incidents lint deny crds manifests pages image image-push cluster aws-cluster capi-cluster provider-suite bench-buffers bench-burst bench-hpa bench-machines bench-peers bench-scorecard bench-shrink bench-week

help: ## This list.
	@awk -F ':.*## ' '/^[a-z%-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

check: lint ## The quick loop: formatting, lints, and the tests that need neither a control plane nor simulated clusters.
	cargo test $(CARGO_FLAGS) $$(hack/quick-tests.sh)
	cargo test $(CARGO_FLAGS) --doc
	cargo test $(MUTANTS_TOOL)

test: ## The tests, on a real control plane too; ends with the counts.
	@hack/test.sh

test-all: ## The same with the long end-to-end tests and those beside other programs, and all lints: what CI runs.
	@hack/test.sh --all

test-matrix: ## The end-to-end tests on each version of Kubernetes in e2e/control-plane. ARGS="devices to_zero"
	hack/test-matrix.sh $(ARGS)

SEEDS ?= 2000
SHARD ?= 1/1
MUTANTS ?= 0/1
THEMES ?= refused outage silence choice load handover pools forgery capacity buffers requests gangs shards
CASES ?= 1000000
STORMS ?= 1000
FUZZ_SECONDS ?= 600

soak: soak-tests incidents soak-fuzz soak-seeds soak-mutants ## The long runs of the simulator and of the properties, in release mode. SEEDS=20000

soak-tests: ## Of these, the tests that are too long for every day, and hostile inputs. CASES=1000000
	cargo test --workspace --release --locked -- --ignored soak
	cargo test $(CARGO_FLAGS) --test end_to_end -- --ignored soak
	HEADROOM_CASES=$(CASES) cargo test --workspace --release --locked --test faults -- hostile
	HEADROOM_CASES=$(CASES) cargo test --workspace --release --locked --lib -- no_body_is_an_answer

soak-removals: ## Of soak-tests, random removals on a model of Cluster API's controllers. STORMS=1000; HEADROOM_STORM=17 runs one seed alone.
	HEADROOM_STORMS=$(STORMS) cargo test --release --locked --package headroom-clusterapi --lib -- --ignored soak --nocapture

soak-seeds: ## Random worlds with random trouble, and those of THEMES="refused load"; SEEDS=20000, SHARD=1/4 for a part. Interrupted, it goes on where it was.
	@mkdir -p target/soak
	cargo run --profile image --locked --package headroom-faults -- --seeds $(SEEDS) --shard $(SHARD) --stay 1h --differential \
	  --log target/soak/seeds-$(subst /,-of-,$(SHARD)).jsonl
	for theme in $(THEMES); do \
	  cargo run --profile image --locked --package headroom-faults -- --theme $$theme --seeds $(SEEDS) --shard $(SHARD) \
	    --log target/soak/$$theme-$(subst /,-of-,$(SHARD)).jsonl || exit 1; \
	done

soak-fuzz: ## libFuzzer on everything that is read from outside. FUZZ_SECONDS=600 for each fuzz target.
	hack/fuzz.sh $(FUZZ_SECONDS)

incidents: ## Bugs that autoscalers have had, put into a copy of the sources: each must be found. ARGS="delta-not-target"
	hack/incidents.sh $(ARGS)

soak-mutants: ## Mutants of core's decisions; reports the surviving ones that no page lists. MUTANTS=0/20 for a part, MUTANTS=src/turns for some files.
	hack/mutants.sh $(MUTANTS)

provider-suite: ## The checks that every provider passes; prints their table.
	cargo test --locked $(foreach provider,provider-suite aws clusterapi externalgrpc,--package headroom-$(provider)) -- conformance_suite
	@grep '^|' docs/development/provider-suite.md

lint: ## Formatting and clippy, every warning an error.
	cargo fmt --all --check
	cargo fmt --manifest-path hack/mutants/Cargo.toml --check
	cargo clippy $(CARGO_FLAGS) --all-targets -- --deny warnings
	cargo clippy $(CARGO_FLAGS) --package e2e --test end_to_end -- --deny warnings
	# As users build it: without crash points. All packages, so that the features of dependencies stay the same.
	cargo clippy --workspace --locked -- --deny warnings
	# As the README's first command builds it: without the cloud.
	cargo clippy --locked --no-default-features -- --deny warnings
	cargo clippy $(MUTANTS_TOOL) --all-targets -- --deny warnings
	# A link in the documentation that leads nowhere.
	RUSTDOCFLAGS="--deny warnings" cargo doc $(CARGO_FLAGS) --no-deps
	# A patch that no longer applies is an incident that is no longer tried.
	HEADROOM_INCIDENTS=target/incidents-check hack/incidents.sh --check

deny: ## Licences, sources, duplicates and known holes of the dependencies.
	@hack/deny.sh

crds: ## Writes crds/ and docs/fields.md anew from the types in src/api.
	@hack/crds.sh

manifests: ## Writes what follows from crds/ and charts/headroom: the definitions' chart, config/ and docs/rbac.md.
	@hack/manifests.sh

pages: ## Writes anew what README.md and docs/ show of the program's output.
	UPDATE=1 cargo test $(CARGO_FLAGS) --test end_to_end -- quick_start explain_page compare_tells walk_through
	UPDATE=1 cargo test $(CARGO_FLAGS) --test pages_are_true
	UPDATE=1 cargo test $(CARGO_FLAGS) --test imports_are_true
	UPDATE=1 cargo test $(CARGO_FLAGS) --test docs_are_whole

LAYOUT ?= target/oci

image: ## The images for amd64 and arm64, as an OCI layout in target/oci.
	rm -rf target/oci
	hack/image/build.sh target/oci

image-push: ## Builds the images and pushes them. REGISTRY=registry.example/team, TAG=0.1.0; LAYOUT=folder takes those that it has.
	@test -n "$(REGISTRY)" || { echo "make image-push: REGISTRY=registry.example/team is missing" >&2; exit 1; }
	@test "$(origin LAYOUT)" != file || $(MAKE) --no-print-directory image
	@TAG="$(TAG)" hack/image/push.sh "$(REGISTRY)" "$(LAYOUT)"

cluster: ## A local control plane with KWOK and metrics-server, until Ctrl-C.
	@cargo run --quiet --locked --package e2e --bin cluster

aws-cluster: ## The same with a simulated AWS, whose Auto Scaling groups bring the nodes.
	@cargo run --quiet --locked --package e2e --bin cluster -- --aws --without-metrics-server

capi-cluster: ## The same with Cluster API's controllers, whose machines are KWOK nodes.
	@cargo run --quiet --locked --package e2e --bin cluster -- --cluster-api --without-metrics-server

bench-burst: ## Many pods at once on a real control plane. ARGS="--pods 1000 --modes floor,operator"
	@cargo run --quiet --locked --package e2e --bin bench_burst -- $(ARGS)

bench-buffers: ## Twenty cases of CapacityBuffers on a real Karpenter and on Headroom: how many nodes each keeps.
	@cargo run --quiet --locked --package e2e --bin bench_buffers

bench-machines: ## Fifty mixes of pods: what the machines cost that a real Karpenter and Headroom buy of one list. ARGS="--mixes 10"
	@cargo run --quiet --locked --package e2e --bin bench_machines -- $(ARGS)

bench-peers: ## Headroom, Karpenter and Cluster Autoscaler on the same work, side by side. ARGS="--works burst-1000,cut --repetitions 1"
	@cargo run --quiet --locked --package e2e --bin bench_peers -- $(ARGS)

bench-scorecard: ## What a preview beside a real Karpenter forecasts of a day of half an hour, and the same day by Headroom. ARGS="--pods 500"
	@cargo run --quiet --locked --package e2e --bin bench_scorecard -- $(ARGS)

bench-shrink: ## The load goes after a burst, and the nodes follow. ARGS="--pods 1000 --policy when-underutilized"
	@cargo run --quiet --locked --package e2e --bin bench_shrink -- $(ARGS)

bench-hpa: ## Many HPAs on a real control plane, run by the controller-manager and by us. ARGS="--hpas 1000 --quick 50 --modes operator"
	@cargo run --quiet --locked --package e2e --bin bench_hpa -- $(ARGS)

bench-week: ## A simulated week of 15,000 nodes with faults, its figures and the invariants. ARGS="--hours 24 --nodes 500"
	@cargo run --quiet --locked --profile image --package headroom-faults --example bench_week -- $(ARGS)

soak-shrink: ## An hour of load that rises and falls on a real control plane. ARGS="--minutes 8 --nodes 60"
	@cargo run --quiet --locked --package e2e --bin soak_shrink -- $(ARGS)

bench-%: ## Any other measurement: the example bench_NAME of a package, built as the images are.
	@cargo run --quiet --locked --profile image --package headroom-$(word 2,$(subst /, ,$(wildcard src/*/examples/bench_$**))) --example bench_$* -- $(ARGS)
