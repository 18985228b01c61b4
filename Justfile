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
