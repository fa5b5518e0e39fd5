// A c10::StorageImpl that holds a global tensor's state and shows the address of this rank's part as its data.
#include <lockstep/compat/libtorch.h>
#include <lockstep/global/tensor_state.h>

#include <ATen/ATen.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>

namespace lockstep::global {
namespace {

/// A storage with the TensorState in the same allocation. Its data pointer is that of this rank's part.
class GlobalStorage final : public c10::StorageImpl {
 public:
  explicit GlobalStorage(TensorState of_tensor)
      : StorageImpl(use_byte_size_t(), 0, at::DataPtr(nullptr, c10::Device(kDeviceType, 0)), nullptr, false),
        state(std::move(of_tensor)) {}

  /// Releases the memory when only weak references to the storage are left.
  void release_resources() override {
    StorageImpl::release_resources();
    state = {};
  }

  TensorState state;
  std::int64_t offset = 0;  ///< of its tensors, in elements
};

GlobalStorage& storage_of(const at::TensorBase& tensor) {
  return static_cast<GlobalStorage&>(*tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

at::Tensor make(TensorState state, const LogicalShape& shape, caffe2::TypeMeta dtype) {
  auto impl =
      c10::make_intrusive<c10::TensorImpl>(c10::Storage(c10::make_intrusive<GlobalStorage>(std::move(state))),
                                           c10::DispatchKeySet({kDispatchKey, compat::kGlobalAutocastKey}), dtype);
  impl->set_sizes_and_strides(shape.sizes, shape.strides);
  if (shape.offset != 0) impl->set_storage_offset(shape.offset);
  at::Tensor tensor(std::move(impl));
  auto& storage = storage_of(tensor);
  storage.offset = shape.offset;
  show_memory(storage);
  return tensor;
}

/// `local`, with its memory converted to the lazy conjugate and negative bits of `own`.
at::Tensor shown_as(const at::Tensor& own, const at::Tensor& local) {
  at::Tensor numbers = local.resolve_conj().resolve_neg();
  if (own.is_conj()) numbers = numbers.conj_physical();
  if (own.is_neg()) numbers = numbers.neg()._neg_view();
  return own.is_conj() ? numbers.conj() : numbers;
}

}  // namespace

TensorState& state_of(const at::TensorBase& tensor) { return storage_of(tensor).state; }

/// libtorch adds a tensor's storage offset to its storage's address; the result must be the address of the part,
/// independent of the part's own offset. A part without elements gets an address, too, which must not be read: without
/// an address, libtorch would treat the tensor, on this rank only, as not allocated.
void show_memory(c10::StorageImpl& of_global) {
  auto& storage = static_cast<GlobalStorage&>(of_global);
  const at::Tensor& local = storage.state.local;
  if (!local.defined() || !local.has_storage()) return;
  auto* const first = local.numel() > 0 ? static_cast<char*>(local.data_ptr()) : reinterpret_cast<char*>(&storage);
  const auto before = static_cast<std::size_t>(storage.offset) * local.element_size();
  storage.set_data_ptr_noswap(at::DataPtr(first - before, c10::Device(kDeviceType, 0)));
  storage.set_nbytes(before + local.nbytes());
}

void set_part(const at::Tensor& own, at::Tensor local) {
  if (local.is_conj() != own.is_conj() || local.is_neg() != own.is_neg()) local = shown_as(own, local);
  auto& storage = storage_of(own);
  storage.state.local = std::move(local);
  storage.offset = own.storage_offset();
  show_memory(storage);
}

at::Tensor make_global(TensorState state, const LogicalShape& shape) {
  const auto dtype = state.local.dtype();
  const bool conj = state.local.is_conj();
  const bool neg = state.local.is_neg();
  auto tensor = make(std::move(state), shape, dtype);
  if (conj) tensor._set_conj(true);
  if (neg) tensor._set_neg(true);
  return tensor;
}

at::Tensor make_without_memory(TensorState state, const LogicalShape& shape) {
  return make(std::move(state), shape, c10::scalarTypeToTypeMeta(shape.dtype));
}

void exchange_state(const at::Tensor& tensor, TensorState state, const LogicalShape& shape) {
  auto* impl = tensor.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(c10::Storage(c10::make_intrusive<GlobalStorage>(std::move(state))));
  impl->set_sizes_and_strides(shape.sizes, shape.strides);
  impl->set_storage_offset(shape.offset);
  storage_of(tensor).offset = shape.offset;
  show_memory(storage_of(tensor));
}

std::vector<std::int64_t> row_major_strides(c10::IntArrayRef sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t stride = 1;
  for (std::size_t dim = sizes.size(); dim-- > 0;) {
    strides[dim] = stride;
    stride *= std::max<std::int64_t>(sizes[dim], 1);
  }
  return strides;
}

std::vector<std::int64_t> strides_in(c10::MemoryFormat format, c10::IntArrayRef sizes) {
  if (format == c10::MemoryFormat::ChannelsLast && sizes.size() == 4) return c10::get_channels_last_strides_2d(sizes);
  if (format == c10::MemoryFormat::ChannelsLast3d && sizes.size() == 5) return c10::get_channels_last_strides_3d(sizes);
  return row_major_strides(sizes);
}

}  // namespace lockstep::global
