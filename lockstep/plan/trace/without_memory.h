// Construction of modules without memory for their parameters, for planning.
#pragma once

#include <cstdint>
#include <memory>

namespace lockstep::plan {

/// While it exists, factories of this thread (torch::empty and similar, and so the constructors of modules) create
/// large tensors, from 64 KiB on, without memory. Such a module can only be traced:
///
///     const auto model = [] { WithoutMemory scope; return models::gpt({.layers = 96, .width = 12288}); }();
class WithoutMemory {
 public:
  WithoutMemory();
  ~WithoutMemory();
  WithoutMemory(const WithoutMemory&) = delete;
  WithoutMemory& operator=(const WithoutMemory&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::plan
