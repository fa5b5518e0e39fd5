// The implementation of global tensors: an ordinary TensorImpl with logical sizes, whose storage holds this rank's
// part, the mesh and the placements instead of values. Tensors that share a storage (detach(), data()) share that
// state, too.
#pragma once

#include <lockstep/compat/global_device.h>
#include <lockstep/global/mesh_state.h>

#include <ATen/core/Tensor.h>
#include <c10/core/MemoryFormat.h>

#include <limits>
#include <memory>

namespace lockstep::global {

inline constexpr auto kDeviceType = compat::kGlobalDevice;
inline constexpr auto kDispatchKey = compat::kGlobalKey;

struct FetchedView;  // dispatch/fetched_view.h

inline constexpr std::size_t kNotTraced = std::numeric_limits<std::size_t>::max();

struct TensorState {
  std::shared_ptr<MeshState> mesh;
  const Sharding* sharding = nullptr;
  at::Tensor local;
  bool unwritten = false;                     ///< created by empty(): an operator that fills it may choose its
                                              ///< placements
  std::shared_ptr<FetchedView> fetched = {};  ///< of a view that shares no memory with its base
  std::shared_ptr<std::uint64_t> writes =
      {};                           ///< number of writes to it and to all views of the same memory; null without views
  std::size_t traced = kNotTraced;  ///< of a tensor without memory: the index of its value in the trace; where
                                    ///< operators have strategies: see dispatch/named_operators.h
};

/// The logical shape of a global tensor.
struct LogicalShape {
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;  ///< strides of the tensor on one device
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::int64_t offset = 0;  ///< offset of the first element in the memory that views of one tensor share
};

inline bool is_global(const at::TensorBase& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->key_set().has(kDispatchKey);
}

/// The state of a global tensor. The caller must have checked that the tensor is global.
TensorState& state_of(const at::TensorBase& tensor);

/// Replaces the part of a global tensor. `local` may have the lazy conjugate or negative bit; it is converted to the
/// bits of `own`.
void set_part(const at::Tensor& own, at::Tensor local);

/// Makes the data pointer of a global tensor's storage point to its part. To be called when the memory of the part has
/// changed.
void show_memory(c10::StorageImpl& of_global);

/// Creates a global tensor. Its dtype is that of its part, because the dtype of `shape` may be a guess. It gets the
/// lazy conjugate and negative bits of the part.
at::Tensor make_global(TensorState state, const LogicalShape& shape);

/// Creates a global tensor with a shape and without a part, for a mesh with a recorder.
at::Tensor make_without_memory(TensorState state, const LogicalShape& shape);

/// Makes `tensor` refer to another state, with this shape and the same dtype; other tensors keep theirs.
void exchange_state(const at::Tensor& tensor, TensorState state, const LogicalShape& shape);

/// Contiguous strides for `sizes`.
std::vector<std::int64_t> row_major_strides(c10::IntArrayRef sizes);

/// Strides for `sizes` in a memory format: channels_last if `sizes` have channels, else contiguous ones.
std::vector<std::int64_t> strides_in(c10::MemoryFormat format, c10::IntArrayRef sizes);

}  // namespace lockstep::global
