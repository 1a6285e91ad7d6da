# `make demo` and `make test` need Python 3.11 or newer with pip and venv, make and git; the rest they install themselves.

PYTHON ?= python3
TORCH := 2.13.0
SEQUENCES ?= 10000

comma := ,
VENV := .venv
VENV_OLDEST := .venv-oldest
VENV_DOCS := .venv-docs
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest fuzz lint docs benchmarks dist constraints clean FORCE

help:
	@echo 'make demo         train PGP on the grid; write a figure and a summary to runs/demo'
	@echo 'make test         run the whole test suite'
	@echo 'make test-oldest  run it against the oldest dependencies that are supported, with Ray, Tianshou, skrl, TorchRL'
	@echo 'make fuzz         try $(SEQUENCES) random sequences of operations, each against a count by hand'
	@echo 'make lint         check format, style, types and the direction of imports'
	@echo 'make docs         build the documentation site into build/site; every warning is an error'
	@echo 'make benchmarks   measure the overhead of the wrappers and the speed of engines and oracle'
	@echo 'make dist         build wheel and sdist into dist/, and try the wheel in an environment of its own'
	@echo 'make constraints  resolve the dependencies anew and write constraints.txt, constraints-oldest.txt, constraints-docs.txt'
	@echo 'make clean        remove the virtual environments, caches and builds; keep runs/'
	@echo
	@echo 'Another interpreter: make PYTHON=python3.12 test'

demo: $(VENV)/.complete
	$(BIN)/cmaxent train FrozenLake-PGP-v0 --iterations 4000 --seed 0 --out runs/demo --overwrite

# Two workers share the cores; a thread pool in each of them would only make them wait for each other.
test test-oldest fuzz: export OMP_NUM_THREADS = 1

test: $(VENV)/.complete
	$(BIN)/python -m pytest -n 2

# Ray's tests start processes of their own, and wait for each other where two workers do.
ON_RAY := tests/adapters/rllib tests/runs/sweeps/test_ray.py
test-oldest: $(VENV_OLDEST)/.complete
	$(VENV_OLDEST)/bin/python -m pytest -n 2 $(addprefix --ignore ,$(ON_RAY))
	$(VENV_OLDEST)/bin/python -m pytest $(ON_RAY)

fuzz: $(VENV)/.complete
	FUZZ_SEQUENCES=$(SEQUENCES) $(BIN)/python -m pytest tests/faults/test_operation_sequences.py

lint: $(VENV)/.complete
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The package is read, not imported: neither it nor what it needs is installed for the site. What the theme's authors have
# to say of their plans is no warning about the site.
docs: $(VENV_DOCS)/.complete
	NO_MKDOCS_2_WARNING=1 $(VENV_DOCS)/bin/python -m mkdocs build --strict --quiet
	@echo 'The site is in build/site: open build/site/index.html'

benchmarks: $(VENV)/.complete
	$(BIN)/python benchmarks/wrapper_overhead.py
	$(BIN)/python benchmarks/tabular_engine.py
	$(BIN)/python benchmarks/mujoco_vector.py
	$(BIN)/python benchmarks/mujoco_vector.py --model HalfCheetah Ant Humanoid --num-envs 64 --steps 40
	$(BIN)/python benchmarks/control_training.py
	$(BIN)/python benchmarks/oracle.py

# The wheel is built from the sdist, so that both are whole. It is tried far from this folder, whose package Python
# would find first.
dist: $(VENV)/.complete
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	@set -eu; work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	'$(PYTHON)' -m venv "$$work/venv"; \
	"$$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl; \
	cd "$$work"; venv/bin/cmaxent --version; \
	for id in FrozenLake-PGP-v0 SafeCartpole-PGP-v0 PointMass-PGP-v0; do \
		venv/bin/cmaxent train "$$id" --iterations 1 --quiet --out "$$id" > log 2>&1 || { cat log >&2; exit 1; }; \
	done; \
	echo 'the wheel is installed, and trains, in an environment of its own'

# A set-up is complete when `.complete` is there and names this folder: it is removed before the first change and
# written after the last. An environment that was interrupted, copied or moved, or whose interpreter is gone, is made
# anew; one that is only older than pyproject.toml or constraints.txt is brought up to date.
usable = $(shell $(1)/bin/python -c '' 2>/dev/null && cat $(1)/.complete 2>/dev/null)
ifneq ($(call usable,$(VENV)),$(CURDIR))
$(VENV)/.complete: FORCE
endif
ifneq ($(call usable,$(VENV_OLDEST)),$(CURDIR))
$(VENV_OLDEST)/.complete: FORCE
endif
ifneq ($(call usable,$(VENV_DOCS)),$(CURDIR))
$(VENV_DOCS)/.complete: FORCE
endif

define check_python
@command -v '$(PYTHON)' >/dev/null 2>&1 || { \
	echo "'$(PYTHON)' was not found. Install Python 3.11 or newer" \
		"(Debian, Ubuntu: apt-get install python3 python3-venv), or name another: make PYTHON=/path/to/python3.11 test" >&2; \
	exit 1; \
}
@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "Python 3.11 or newer is needed; '$(PYTHON)' is $$('$(PYTHON)' --version 2>&1)." \
		"Install a newer one and name it: make PYTHON=python3.11 test" >&2; \
	exit 1; \
}
@'$(PYTHON)' -c 'import venv, ensurepip' 2>/dev/null || { \
	echo "'$(PYTHON)' cannot create virtual environments: its module venv or ensurepip is missing." \
		"Install it (Debian, Ubuntu: apt-get install python3-venv), then run the same command again." >&2; \
	exit 1; \
}
endef

define set_up
$(check_python)
@if [ "$$($(@D)/bin/python -c '' 2>/dev/null && cat $@ 2>/dev/null)" != '$(CURDIR)' ]; then \
	echo 'Creating $(@D)'; rm -f $@; '$(PYTHON)' -m venv --clear $(@D) || exit 1; \
fi
@rm -f $@
@echo 'Installing the pinned packages into $(@D); this takes a minute or two'
@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(1) $(2) || { \
	echo 'The packages could not be installed: see the message of pip above. Then run the same command again.' >&2; \
	exit 1; \
}
@printf '%s\n' '$(CURDIR)' > $@
endef

$(VENV)/.complete: pyproject.toml constraints.txt
	$(call set_up,constraints.txt,--editable '.[dev]')

$(VENV_OLDEST)/.complete: pyproject.toml constraints-oldest.txt
	$(call set_up,constraints-oldest.txt,--editable '.[dev$(comma)ray$(comma)third-party]')

$(VENV_DOCS)/.complete: constraints-docs.txt
	$(call set_up,constraints-docs.txt,--requirement constraints-docs.txt)

# The pins hold for Python 3.11 on Linux: the newest versions of everything; and the oldest that pyproject.toml admits of
# what it names, beside newest versions of what that needs. What torch needs only for CUDA is left out, and so is its
# "+cpu": either build satisfies the pin. Of torch both lists have one version: older builds for processors alone are not
# to be had everywhere.
constraints:
	$(check_python)
	@set -eu; work=$$(mktemp -d); trap 'rm -rf "$$work"' EXIT; \
	'$(PYTHON)' -m venv "$$work/venv"; \
	"$$work/venv/bin/pip" install --quiet --disable-pip-version-check uv; \
	echo 'torch==$(TORCH)' > "$$work/torch.txt"; \
	resolve() { \
		"$$work/venv/bin/uv" pip compile --quiet --python-version 3.11 --no-header --no-annotate --resolution "$$1" \
			--extra dev --extra studies --extra sb3 $$4 --constraint "$$work/torch.txt" \
			--output-file "$$work/resolved" pyproject.toml; \
		{ \
			echo "# Pinned versions of $$3, for Python 3.11 on Linux."; \
			echo '# Regenerate with: make constraints'; \
			sed -E -e 's/^(torch==[^+]*)\+.*/\1/' "$$work/resolved" | grep -E '^[a-z0-9]' | grep -Ev '^(nvidia|cuda|triton)' | sort; \
		} > "$$work/$$2"; \
		cp "$$work/$$2" "$$2"; \
		echo "$$2 is written"; \
	}; \
	resolve highest constraints.txt 'all dependencies, of what make test needs' ''; \
	resolve lowest-direct constraints-oldest.txt 'the oldest dependencies that are supported, with Ray and other third parties' \
		'--extra ray --extra third-party'; \
	'$(PYTHON)' -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"], sep="\n")' \
		> "$$work/docs.in"; \
	{ \
		echo '# Pinned versions of what make docs needs, for Python 3.11 on Linux.'; \
		echo '# Regenerate with: make constraints'; \
		"$$work/venv/bin/uv" pip compile --quiet --python-version 3.11 --no-header --no-annotate "$$work/docs.in"; \
	} > constraints-docs.txt; \
	echo 'constraints-docs.txt is written'

clean:
	rm -rf $(VENV) $(VENV_OLDEST) $(VENV_DOCS) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .grimp_cache
	find constrained_maxent tests -name __pycache__ -type d -prune -exec rm -rf {} +
