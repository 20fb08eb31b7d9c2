# The front door. meson does the work; see README.md and meson.build.
#   make          builds build/cli/weft, the library and the examples
#   make demo     fine-tunes the model that comes with the source, in a few minutes
#   make test     the tests, plain and under the sanitizers
#   make test-all  the same with every case: hours on a software Vulkan driver
#   make check    the same without the sanitizers
#   make kills    kills all writers 1,000 times, and resumes twenty killed training runs
#   make real-models  fetches two real models from the Python index and runs their tests
#   make bench    speed and memory
#   make site     the documents as a site with a search, in build/site
#   make lint     formatting, static analysis, spelling
#   make format   formats the sources in place
#   make install  into the system, or into DESTDIR
#   make deb      Debian packages for the Debian that runs, in dist
#   make tarball  a folder that runs without installation, in dist
#   make release  both for Debian 12 and 13, tested in fresh systems, with notes and checksums
#   make clean    removes the build folders
#
# OPTIONS are meson's: make OPTIONS='-Dvulkan=disabled -Dhdf5=disabled'. CC is the compiler: make
# CC=clang. Both may be given again for a folder that is already configured, and stay until others
# are given. BUILD is the build folder.

BUILD = build
OPTIONS =

all:
	@tools/dependencies.sh build
	@tools/build.sh $(BUILD) programs $(OPTIONS)
	@echo "built $(BUILD)/cli/weft"

demo: all
	@WEFT=$(BUILD)/cli/weft WEFT_DEMO=$(BUILD)/demo examples/demo.sh

test:
	@tools/dependencies.sh test
	@WEFT_BUILD=$(BUILD) WEFT_OPTIONS='$(OPTIONS)' tests/run.sh

test-all:
	@tools/dependencies.sh test
	@WEFT_BUILD=$(BUILD) WEFT_OPTIONS='$(OPTIONS)' tests/run.sh --all

check:
	@tools/dependencies.sh test
	@WEFT_BUILD=$(BUILD) WEFT_OPTIONS='$(OPTIONS)' tests/run.sh --quick

kills:
	@tools/build.sh $(BUILD) "cli/weft tests/kill_writer tests/libkill_at.so tests/test_cli_kills tests/test_cli_resume" \
		$(OPTIONS)
	@WEFT_TEST_KILLS=1000 $(BUILD)/tests/test_cli_kills
	@WEFT_TEST_KILLS=20 $(BUILD)/tests/test_cli_resume

real-models:
	@tools/dependencies.sh build
	@tools/real_models.sh "$${WEFT_REAL_MODELS:-$${XDG_CACHE_HOME:-$$HOME/.cache}/weft/real-models}"
	@tools/build.sh $(BUILD) tests/test_real_models $(OPTIONS)
	@$(BUILD)/tests/test_real_models

bench: all
	@PATH=/usr/bin:$$PATH ninja -C $(BUILD) tests/bench_ceilings tests/bench_inferena
	@python3 tests/bench/compare.py --weft $(BUILD)/cli/weft --ceilings $(BUILD)/tests/bench_ceilings \
		--inferena $(BUILD)/tests/bench_inferena \
		--models $(BUILD)/bench/models --out $(BUILD)/bench $(ARGS)

site:
	@tools/dependencies.sh site
	@tools/site.sh $(BUILD)/site
	@echo "built $(BUILD)/site/index.html"

lint:
	@tools/dependencies.sh lint
	@tools/build.sh $(BUILD) all $(OPTIONS)
	@tools/lint.sh $(BUILD)

format:
	@tools/dependencies.sh lint
	@tools/format.sh -i

install: all
	@PATH=/usr/bin:$$PATH meson install -C $(BUILD) --no-rebuild

deb:
	@tools/dependencies.sh deb
	@tools/deb.sh $(BUILD)-deb dist

tarball:
	@tools/dependencies.sh tarball
	@tools/tarball.sh $(BUILD)-tarball dist

release:
	@tools/release.sh dist

clean:
	@rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-clang $(BUILD)-deb $(BUILD)-tarball

.PHONY: all demo test test-all check kills real-models bench site lint format install deb tarball \
	release clean
