// The part of Gloo that Lockstep calls, declared as in the libtorch of PyTorch's Python package: that libtorch contains
// and exports Gloo, but is distributed without Gloo's headers. The headers of other versions are not usable, because
// virtual functions have other places there. The configuration of the build checks whether a libtorch fits these
// declarations (cmake/check_gloo.cpp); where it does not, the gloo backend is omitted.
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
