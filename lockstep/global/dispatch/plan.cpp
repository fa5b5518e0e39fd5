// The cache of plans behind a lock, and the key of a call: its operator, placements, sizes, strides and numbers.
#include <lockstep/global/dispatch/plan.h>
#include <lockstep/global/tensor_state.h>

#include <algorithm>
#include <functional>
#include <string>

namespace lockstep::global {

std::size_t PlanCache::Hash::operator()(KeyView key) const noexcept {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL;
  for (const std::int64_t word : key) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 32;
  }
  return hash;
}

const Plan* PlanCache::find(KeyView key) const {
  const std::lock_guard lock(mutex_);
  const auto found = plans_.find(key);
  return found == plans_.end() ? nullptr : found->second.get();
}

const Plan* PlanCache::keep(KeyView key, Plan plan) {
  const std::lock_guard lock(mutex_);
  auto& place = plans_[std::vector<std::int64_t>(key.begin(), key.end())];
  if (!place) place = std::make_unique<Plan>(std::move(plan));
  return place.get();
}

std::size_t PlanCache::size() const {
  const std::lock_guard lock(mutex_);
  return plans_.size();
}

namespace {

enum Tag : std::int64_t { kNone, kUndefined, kLocal, kGlobal, kList, kNumber, kFloat, kText, kFlag };

// Each function returns whether there is a fetched view.

bool write_tensor(const at::Tensor& tensor, Key& key) {
  if (!tensor.defined()) {
    key.push_back(kUndefined);
    return false;
  }
  if (!is_global(tensor)) {
    key.push_back(kLocal);
    key.push_back(static_cast<std::int64_t>(tensor.scalar_type()));
    key.push_back(tensor.unsafeGetTensorImpl()->is_wrapped_number() ? 1 : 0);
    key.push_back(tensor.dim());
    return false;
  }
  const auto& state = state_of(tensor);
  key.push_back(kGlobal + (state.unwritten ? 100 : 0));
  key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(state.sharding)));
  key.push_back(static_cast<std::int64_t>(tensor.scalar_type()) * 64 + tensor.dim());
  key.push_back(tensor.storage_offset());
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  key.append(sizes.begin(), sizes.end());
  key.append(strides.begin(), strides.end());
  return state.fetched != nullptr;
}

bool write_value(const c10::IValue& value, Key& key);

bool write_list(const c10::IValue& value, Key& key) {
  const auto items = value.toListRef();
  key.push_back(kList);
  key.push_back(static_cast<std::int64_t>(items.size()));
  bool fetched = false;
  for (const auto& each : items) fetched |= write_value(each, key);
  return fetched;
}

bool write_value(const c10::IValue& value, Key& key) {
  if (value.isTensor()) {
    return write_tensor(value.toTensor(), key);  // a reference: avoids a reference-count update
  }
  if (value.isInt()) {
    key.push_back(kNumber);
    key.push_back(value.toInt());
  } else if (value.isBool()) {
    key.push_back(kFlag);
    key.push_back(value.toBool() ? 1 : 0);
  } else if (value.isDouble()) {
    key.push_back(kFloat);
  } else if (value.isDevice()) {
    key.push_back(static_cast<std::int64_t>(value.toDevice().type()));
  } else if (value.isString()) {
    key.push_back(kText);
    key.push_back(static_cast<std::int64_t>(std::hash<std::string>()(value.toStringRef())));
  } else if (value.isList()) {
    return write_list(value, key);
  } else {
    key.push_back(kNone);
  }
  return false;
}

void write_lengths(const std::vector<std::int64_t>& lengths, Key& key) {
  key.push_back(kList);
  key.push_back(static_cast<std::int64_t>(lengths.size()));
  key.push_back(lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end()));
}

bool write_with_lengths(const OpInfo& info, const torch::jit::Stack& arguments, Key& key) {
  bool fetched = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool lengths = std::find(info.lengths.begin(), info.lengths.end(), i) != info.lengths.end();
    if (lengths && arguments[i].isIntList()) {
      write_lengths(arguments[i].toIntVector(), key);
    } else {
      fetched |= write_value(arguments[i], key);
    }
  }
  return fetched;
}

}  // namespace

bool write_key(const OpInfo& info, const torch::jit::Stack& arguments, Key& key) {
  key.clear();
  key.push_back(static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(&info)));
  if (!info.lengths.empty()) return write_with_lengths(info, arguments, key);
  bool fetched = false;
  for (const auto& each : arguments) fetched |= write_value(each, key);
  return fetched;
}

}  // namespace lockstep::global
