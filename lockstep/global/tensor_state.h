// A global tensor for libtorch: an ordinary TensorImpl of logical sizes whose storage holds, instead of numbers, this
// rank's part and how the parts make the whole. Handles that share a storage (detach(), data()) share that, too.
#pragma once

#include <lockstep/global/mesh_state.h>

#include <ATen/core/Tensor.h>
#include <c10/core/MemoryFormat.h>

#include <limits>
#include <memory>

namespace lockstep::global {

/// PrivateUse1 is libtorch's place for devices that it does not know.
inline constexpr auto kDeviceType = c10::DeviceType::PrivateUse1;
inline constexpr auto kDispatchKey = c10::DispatchKey::PrivateUse1;

struct FetchedView;  // dispatch/fetched_view.h

inline constexpr std::size_t kNotTraced = std::numeric_limits<std::size_t>::max();

struct TensorState {
  std::shared_ptr<MeshState> mesh;
  const Sharding* sharding = nullptr;
  at::Tensor local;
  bool unwritten = false;                     ///< made by empty(): an operator that fills it may choose how it lies
  std::shared_ptr<FetchedView> fetched = {};  ///< of a view that shares no memory with what it is a view of
  std::shared_ptr<std::uint64_t> writes =
      {};                           ///< to it and to all that are views of the same; none while there are none
  std::size_t traced = kNotTraced;  ///< of a tensor without memory: which value of the trace it holds
};

/// What a new global tensor looks like from outside.
struct LogicalShape {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  ///< as libtorch on one device would have it
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::int64_t offset = 0;  ///< of the first element in the memory that views of one tensor share
};

inline bool is_global(const at::TensorBase& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->key_set().has(kDispatchKey);
}

/// The state behind a global tensor. The caller made sure that it is one.
TensorState& state_of(const at::TensorBase& tensor);

/// Gives a global tensor another part. `local` may show its numbers through a lazy conj() or negative or not, and does
/// as `own` afterwards.
void set_part(const at::Tensor& own, at::Tensor local);

/// What libtorch sees as the memory of a global tensor is its part, as long as the part stays where it is. To be called
/// when it has moved.
void show_memory(c10::StorageImpl& of_global);

/// Of the dtype of its part: that of `shape` may be a guess. A part that is a lazy conj() or negative makes a tensor
/// that is one.
at::Tensor make_global(TensorState state, const LogicalShape& shape);

/// One that has a shape and no part: for a mesh with a recorder.
at::Tensor make_without_memory(TensorState state, const LogicalShape& shape);

/// Makes `tensor` a handle to another state, of this shape and the same dtype; other handles keep theirs.
void exchange_state(const at::Tensor& tensor, TensorState state, const LogicalShape& shape);

/// Contiguous strides for `sizes`.
std::vector<std::int64_t> row_major_strides(c10::IntArrayRef sizes);

/// Strides for `sizes` in a memory format: channels last where `sizes` have channels, else contiguous ones.
std::vector<std::int64_t> strides_in(c10::MemoryFormat format, c10::IntArrayRef sizes);

}  // namespace lockstep::global
