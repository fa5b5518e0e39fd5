// The part of Gloo that Lockstep calls, declared as the libtorch in PyTorch's Python package has it: that libtorch
// contains Gloo and exports it, but comes without Gloo's headers. The headers of other versions would not do, as
// virtual functions have other places there. Whether a libtorch fits these declarations is checked when the build is
// configured (cmake/check_gloo.cpp); where it does not, there is no gloo backend.
//
// The headers beside this one have the names under which c10d includes them.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>

namespace gloo {

namespace transport {
class UnboundBuffer;
}

/// The connections of one rank to all others. Only libtorch makes one.
class Context {
 public:
  Context() = delete;

  std::unique_ptr<transport::UnboundBuffer> createUnboundBuffer(void* memory, std::size_t bytes);
  void setTimeout(std::chrono::milliseconds timeout);
};

}  // namespace gloo
