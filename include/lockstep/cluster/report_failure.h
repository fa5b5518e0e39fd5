// The report of a rank's failure to its launcher, through torchrun's error file.
#pragma once

#include <lockstep/base/environment.h>

#include <exception>
#include <string_view>

namespace lockstep::cluster {

/// Writes why this process fails to the file that TORCHELASTIC_ERROR_FILE in `environment` names, if any; a later call
/// replaces the earlier report. Not thread-safe. Best effort: a program that is about to fail has no use for a second
/// error. For the `main` of any program under `lockstep run`:
///
///     catch (const std::exception& error) {
///       lockstep::cluster::report_failure(error);
///       fmt::print(stderr, "{}\n", error.what());
///       return 1;
///     }
void report_failure(const std::exception& error, const Environment& environment = current_environment()) noexcept;

/// The same for a message and the name of its error kind.
void report_failure(std::string_view message, std::string_view kind,
                    const Environment& environment = current_environment()) noexcept;

}  // namespace lockstep::cluster
