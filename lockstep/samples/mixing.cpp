// Transforms of batches: mixup and cutmix of the samples of a batch with each other, with their labels.
#include <lockstep/samples/picture_parts.h>

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace lockstep::samples {
namespace {

struct MixOptions {
  double alpha = 1;
  double prob = 1;
  std::int64_t num_classes = 0;
};
void describe(ConfigFields& fields, MixOptions& options) {
  fields.field("alpha", options.alpha, above(0), "shares are drawn from the distribution Beta(alpha, alpha)");
  fields.field("prob", options.prob, between(0, 1), "share of the batches that are mixed");
  fields.field("num_classes", options.num_classes, between(0, 1e9), "numbers of a label; 0: the classes of the data");
}

std::int64_t classes_of(const Dataset& dataset, const MixOptions& options, const std::string& name) {
  if (options.num_classes > 0) return options.num_classes;
  const auto pictures = dataset.stored();
  const auto classes = pictures ? pictures->num_classes() : std::ssize(dataset.classes());
  if (classes > 0) return classes;
  fail(ErrorKind::config, "transforms", "{} needs num_classes, because this data set does not name its classes", name);
}

/// Labels as shares of the classes, float32 [N, classes]; those that are already shares stay as they are.
at::Tensor shares_of(const Batch& batch, std::int64_t classes, const std::string& name) {
  const auto found = batch.tensors.find(kLabels);
  const auto& labels = found == batch.tensors.end() ? at::Tensor() : found->second;
  if (labels.defined() && labels.dim() == 2 && labels.is_floating_point()) return labels;
  if (!labels.defined() || labels.dim() != 1 || labels.scalar_type() != at::kLong) {
    fail(ErrorKind::config, "transforms", "{} is for samples with one class each, the field `{}`", name, kLabels);
  }
  const auto wrong = labels.lt(0).logical_or(labels.ge(classes));
  if (wrong.any().item<bool>()) {
    fail(ErrorKind::data, "transforms",
         "{} got the label {}, and there are {} classes; correct the data or num_classes", name,
         labels.masked_select(wrong)[0].item<std::int64_t>(), classes);
  }
  return at::zeros({labels.size(0), classes}, at::kFloat).scatter_(1, labels.unsqueeze(1), 1);
}

/// `share` of each row, and the rest of the row before it.
at::Tensor mixed_rows(const at::Tensor& rows, double share) {
  return rows.roll({1}, {0}).mul_(1.0 - share).add_(rows.mul(share));
}

/// Changes the pictures, [N, ...], and returns the share of its own picture in each.
using Mix = double (*)(at::Tensor& pictures, double share, const TransformStep& step, at::Generator& generator);

double mix_all(at::Tensor& pictures, double share, const TransformStep&, at::Generator&) {
  if (!pictures.is_floating_point()) {
    fail(ErrorKind::config, "transforms",
         "mixup is for floats, and the pictures are {}; put to_tensor or rescale in "
         "front of it",
         c10::toString(pictures.scalar_type()));
  }
  pictures = mixed_rows(pictures, share);
  return share;
}

double mix_boxes(at::Tensor& pictures, double share, const TransformStep& step, at::Generator& generator) {
  const auto out = pictures.clone();
  const auto rows = step.channels_first ? 2 : 1, columns = rows + 1;
  const auto height = pictures.size(rows), width = pictures.size(columns);
  const auto x = draw_below(generator, width), y = draw_below(generator, height);
  const double half = 0.5 * std::sqrt(1.0 - share);
  const auto part = [](std::int64_t middle, double half_side, std::int64_t side) {
    const auto reach = static_cast<std::int64_t>(half_side * static_cast<double>(side));
    const auto first = std::max<std::int64_t>(0, middle - reach);
    return std::pair(first, std::min(side, middle + reach) - first);
  };
  const auto [left, box_width] = part(x, half, width);
  const auto [top, box_height] = part(y, half, height);
  const auto box = [&, left = left, top = top, w = box_width, h = box_height](const at::Tensor& of) {
    return of.narrow(rows, top, h).narrow(columns, left, w);
  };
  box(out).copy_(box(pictures.roll({1}, {0})));
  pictures = out;
  return 1.0 - static_cast<double>(box_width * box_height) / static_cast<double>(width * height);
}

std::function<BatchTransform(const PartOptions&, const TransformStep&, const Dataset&)> maker_of(Mix mix) {
  return [mix](const PartOptions& part, const TransformStep& step, const Dataset& dataset) -> BatchTransform {
    const auto& options = part.as<MixOptions>();
    return [mix, step, options, classes = classes_of(dataset, options, step.name)](Batch batch, const Chance& chance) {
      const auto found = batch.tensors.find(kPictures);
      if (found == batch.tensors.end() || found->second.dim() != 4) {
        fail(ErrorKind::config, "transforms", "{} is for batches of pictures of one size, the field `{}`", step.name,
             kPictures);
      }
      auto shares = shares_of(batch, classes, step.name);
      auto generator = at::detail::createCPUGenerator(chance.seed(step.name));
      if (options.prob == 1 || draw(generator, 0, 1) < options.prob) {
        const auto drawn = at::_sample_dirichlet(at::full({1, 2}, options.alpha, at::kFloat), generator);
        shares = mixed_rows(shares, mix(found->second, drawn[0][0].item<double>(), step, generator));
      }
      batch.tensors.insert_or_assign(kLabels, shares);
      return batch;
    };
  };
}

}  // namespace

std::vector<TransformPart> mixing_transforms() {
  const auto options = PartOptions::of(MixOptions{});
  return {
      {.name = "mixup",
       .doc = "batches: each picture and label mixed with those of the sample before it",
       .options = options,
       .make = {},
       .random = true,
       .make_for_batches = maker_of(mix_all)},
      {.name = "cutmix",
       .doc = "batches: a box of each picture from the sample before it, and labels by its area",
       .options = options,
       .make = {},
       .random = true,
       .make_for_batches = maker_of(mix_boxes)},
  };
}

}  // namespace lockstep::samples
