// The whole program `lockstep`, which is loaded with libtorch.
#include <apps/lockstep/app_commands.h>
#include <apps/ocr/parts.h>
#include <lockstep/cli/app_commands.h>

#include <memory>

int main(int argc, char** argv) {
  using namespace lockstep;
  const auto parts = std::make_shared<const train::Parts>(ocr::with_ocr_parts(train::shipped_parts()));
  return cli::run_whole_program(argc, argv, app_commands(), parts);
}
