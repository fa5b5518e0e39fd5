#include <lockstep/comm/collectives.h>
#include <lockstep/train/evaluate.h>

#include <torch/torch.h>

#include <chrono>

namespace lockstep::train {

Evaluation evaluate(const models::Classifier& model, data::Loader& loader, const Group& group,
                    const ForwardOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const torch::NoGradGuard no_grad;
  model.module->eval();
  std::int64_t correct = 0, pictures = 0;
  double loss = 0;
  loader.start(0);
  while (const auto batch = loader.next()) {
    if (batch->count == 0) continue;
    const auto result = forward(model, batch, options);
    correct += (result.logits.argmax(1) == result.labels).sum().item<std::int64_t>();
    loss += result.loss.item<double>() * static_cast<double>(batch->count);
    pictures += batch->count;
  }
  model.module->train();
  // Doubles hold counts of up to 2^53 exactly.
  auto sums = torch::tensor({static_cast<double>(correct), static_cast<double>(pictures), loss}, torch::kDouble);
  all_reduce(sums, group);
  const auto* total = sums.data_ptr<double>();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return {.accuracy = total[0] / total[1],
          .loss = total[2] / total[1],
          .samples = static_cast<std::int64_t>(total[1]),
          .seconds = took.count()};
}

}  // namespace lockstep::train
