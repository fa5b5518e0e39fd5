// The whole program `lockstep`, which is loaded with libtorch.
#include <apps/lockstep/app_commands.h>
#include <apps/ocr/parts.h>
#include <lockstep/cli/command.h>

#include <memory>
#include <utility>

int main(int argc, char** argv) {
  using namespace lockstep;
  auto parts = ocr::with_ocr_parts(train::shipped_parts());
  parts.built_in = {"liblockstep_ocr.so"};  // the plugin apps/ocr/plugin.cpp, which runs of other programs name
  return cli::run_whole_program(argc, argv, app_commands(), std::make_shared<const train::Parts>(std::move(parts)));
}
