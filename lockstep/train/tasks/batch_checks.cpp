// Checks of labels, ids, shares and picture dtypes, which name the sample and the key to change.
#include <lockstep/train/tasks/batch_checks.h>

#include <lockstep/base/error.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/global/tensor_state.h>
#include <lockstep/samples/pictures.h>

#include <torch/torch.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

namespace lockstep::train {
namespace {

constexpr std::int64_t kLeftOut = -100;  // libtorch's ignore_index

std::string name_of_sample(const samples::Batch& batch, std::size_t row) {
  const auto names = batch.texts.find(samples::kNames);
  const auto number = row < batch.indices.size() ? fmt::format("sample {}", batch.indices[row]) : "a sample";
  if (names == batch.texts.end() || row >= names->second.size()) return number;
  return fmt::format("{} ({})", number, names->second[row]);
}

}  // namespace

at::Tensor find_own_values(const at::Tensor& tensor) {
  if (is_global(tensor) && !global::state_of(tensor).local.defined()) return {};
  auto own = is_global(tensor) ? to_local(tensor) : tensor;
  if (own.is_meta() || !own.has_storage() || own.numel() == 0 || !own.storage().data()) return {};
  return own;
}

void require_in_range(const samples::Batch& batch, std::string_view field, std::int64_t limit, std::string_view key) {
  const torch::NoGradGuard no_grad;
  const auto own = find_own_values(batch[field]);
  if (!own.defined()) return;
  const auto values = own.to(torch::kCPU, torch::kLong).reshape({own.size(0), -1});
  const auto wrong = values.ge(limit).logical_or(values.lt(0).logical_and(values.ne(kLeftOut))).nonzero();
  if (wrong.size(0) == 0) return;
  const auto row = wrong[0][0].item<std::int64_t>();
  fail(ErrorKind::data, key,
       "is {}, and {} has {} in `{}`, where numbers are from 0 to {}; raise {}, or correct the data", limit,
       name_of_sample(batch, static_cast<std::size_t>(row)),
       values[row][wrong[0][1].item<std::int64_t>()].item<std::int64_t>(), field, limit - 1, key);
}

void require_shares(const at::Tensor& targets, std::string_view key, std::string_view meaning, std::string_view fix) {
  const auto own = find_own_values(targets);
  if (!own.defined()) return;
  const auto least = own.min().item<double>(), most = own.max().item<double>();
  if (least >= 0 && most <= 1) return;
  fail(ErrorKind::data, key, "{}, and those of a batch are from {} to {}{}", meaning, least, most, fix);
}

void require_floating_pictures(const samples::Batch& batch) {
  const auto found = batch.tensors.find(samples::kPictures);
  if (found == batch.tensors.end() || found->second.is_floating_point()) return;
  fail(ErrorKind::config, "data.train_transforms",
       "the model gets pictures of dtype {} and shape [{}], and takes floating ones [N, C, H, W]; add to_tensor at the "
       "end of data.train_transforms, and of data.eval_transforms where that is given",
       c10::toString(found->second.scalar_type()), fmt::join(found->second.sizes(), ", "));
}

}  // namespace lockstep::train
