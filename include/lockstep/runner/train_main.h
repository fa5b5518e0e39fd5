// The main function of a training program: what `lockstep train` does, with a model, a task and data of one's own.
//
//   int main(int argc, char** argv) {
//     return lockstep::train_main(argc, argv, [](const lockstep::train::RunConfig& config) {
//       return lockstep::train::Program{.model = ..., .task = ..., .data = ...};
//     });
//   }
#pragma once

#include <lockstep/train/parts.h>
#include <lockstep/train/program.h>

#include <functional>

namespace lockstep {

/// Trains `make`'s program, in each way in which `lockstep train` is started, and returns the exit code. The command
/// line is that of `lockstep train`: --config FILE is optional, KEY=VALUE changes `defaults`, --help explains. The
/// section `program` of the configuration is the program's own: read it with read_config<Options>(config.program,
/// "program") (base/config.h).
///
/// `make` is called once the configuration is complete, in each rank. Errors are printed and reported to the launcher.
int train_main(int argc, char** argv, const std::function<train::Program(const train::RunConfig&)>& make,
               train::RunConfig defaults = {}) noexcept;

/// The same for a program that adds parts (parts.h) which its configuration file names: --config FILE is required then.
int train_main(int argc, char** argv, train::Parts parts) noexcept;

}  // namespace lockstep
