// The connections of a gloo::Context, as far as Lockstep calls them; see ../context.h.
#pragma once

#include <cstddef>
#include <memory>

namespace gloo {

class IStore;

namespace transport {

class Pair;
class UnboundBuffer;

/// Only libtorch makes one. Virtual functions are in the order of its table.
class Context {
 public:
  Context() = delete;
  virtual ~Context();

  virtual std::unique_ptr<Pair>& getPair(int rank);
  virtual std::unique_ptr<Pair>& createPair(int rank) = 0;
  virtual void createAndConnectAllPairs(std::shared_ptr<IStore> store);
  virtual std::unique_ptr<UnboundBuffer> createUnboundBuffer(void* memory, std::size_t bytes) = 0;
};

}  // namespace transport
}  // namespace gloo
