# Recipes call the same commands that CI calls.

# run the tests
test *args:
    uv run pytest {{args}}

# format, lint, import rules, shell scripts
lint:
    uv run ruff format --check
    uv run ruff check
    uv run lint-imports
    git ls-files -z '*.sh' '.ci/run' | xargs -0 uv run shellcheck

# format and fix what can be fixed
fix:
    uv run ruff format
    uv run ruff check --fix

# pack tracked files and untracked/input for a pod
bundle:
    scripts/bundle.sh

# what the hub cache holds
hf-status:
    scripts/hf-cache.sh status

# remove every other model from the hub cache
hf-keep key:
    scripts/hf-cache.sh keep {{key}}

# remove every model from the hub cache
hf-clean:
    scripts/hf-cache.sh clean
