#include <lockstep/base/foreign_keys.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

struct ForeignKey {
  std::string_view name;  ///< in lower case, without '_'
  std::string_view ours;
};

// Key names of other trainers, recipes and argument parsers. Only names with a single possible meaning are listed.
constexpr auto kForeignKeys = std::to_array<ForeignKey>({
    {"learningrate", "optimizer.lr"},
    {"baselr", "optimizer.lr"},
    {"initlr", "optimizer.lr"},
    {"initiallr", "optimizer.lr"},
    {"optim", "optimizer.name"},
    {"optimizername", "optimizer.name"},
    {"optimizertype", "optimizer.name"},
    {"optimizer.type", "optimizer.name"},
    {"wd", "optimizer.weight_decay"},
    {"l2", "optimizer.weight_decay"},
    {"beta1", "optimizer.betas"},
    {"beta2", "optimizer.betas"},
    {"adambeta1", "optimizer.betas"},
    {"adambeta2", "optimizer.betas"},
    {"epsilon", "optimizer.eps"},
    {"adamepsilon", "optimizer.eps"},
    {"lrscheduler", "scheduler.name"},
    {"lrschedulertype", "scheduler.name"},
    {"scheduler.type", "scheduler.name"},
    {"numwarmupsteps", "scheduler.warmup_steps"},
    {"warmupiters", "scheduler.warmup_steps"},
    {"numwarmupepochs", "scheduler.warmup_epochs"},
    {"etamin", "scheduler.min_lr"},
    {"batch", "data.batch_size"},
    {"bs", "data.batch_size"},
    {"batchsize", "data.batch_size"},
    {"minibatchsize", "data.batch_size"},
    {"trainbatchsize", "data.batch_size"},
    {"perdevicetrainbatchsize", "data.batch_size"},
    {"valbatchsize", "data.eval_batch_size"},
    {"testbatchsize", "data.eval_batch_size"},
    {"perdeviceevalbatchsize", "data.eval_batch_size"},
    {"numworkers", "data.workers"},
    {"dataloadernumworkers", "data.workers"},
    {"prefetchfactor", "data.prefetch"},
    {"dataset", "data.name"},
    {"datasetname", "data.name"},
    {"data.type", "data.name"},
    {"datapath", "data.root"},
    {"dataroot", "data.root"},
    {"datadir", "data.root"},
    {"datafolder", "data.root"},
    {"datasetpath", "data.root"},
    {"data.path", "data.root"},
    {"data.dir", "data.root"},
    {"data.folder", "data.root"},
    {"droplast", "data.remainder"},
    {"transform", "data.train_transforms"},
    {"transforms", "data.train_transforms"},
    {"augmentation", "data.train_transforms"},
    {"maxepoch", "train.epochs"},
    {"maxepochs", "train.epochs"},
    {"numepochs", "train.epochs"},
    {"nepochs", "train.epochs"},
    {"numtrainepochs", "train.epochs"},
    {"maxsteps", "train.steps"},
    {"numsteps", "train.steps"},
    {"totalsteps", "train.steps"},
    {"maxiters", "train.steps"},
    {"iterations", "train.steps"},
    {"numiterations", "train.steps"},
    {"accumulation", "train.accumulate"},
    {"gradaccum", "train.accumulate"},
    {"accumulationsteps", "train.accumulate"},
    {"accumulategradbatches", "train.accumulate"},
    {"gradientaccumulation", "train.accumulate"},
    {"gradientaccumulationsteps", "train.accumulate"},
    {"gradclip", "train.clip_norm"},
    {"clipgradnorm", "train.clip_norm"},
    {"maxgradnorm", "train.clip_norm"},
    {"gradientclipval", "train.clip_norm"},
    {"evalinterval", "train.eval_every"},
    {"valinterval", "train.eval_every"},
    {"checkvaleverynepoch", "train.eval_every"},
    {"criterion", "loss.name"},
    {"lossfn", "loss.name"},
    {"lossfunction", "loss.name"},
    {"loss.type", "loss.name"},
    {"smoothing", "loss.label_smoothing"},
    {"labelsmoothingfactor", "loss.label_smoothing"},
    {"arch", "model.name"},
    {"architecture", "model.name"},
    {"backbone", "model.name"},
    {"network", "model.name"},
    {"modelname", "model.name"},
    {"parallelmode", "parallel.mode"},
    {"enableparalleloptimizer", "parallel.shard_optimizer"},
    {"devicetarget", "system.device"},
    {"system.gpu", "system.device"},
    {"parallel.fullbatch", "parallel.dataset_strategy"},
    {"fullbatch", "parallel.dataset_strategy"},
    {"model.type", "model.name"},
    {"classes", "model.num_classes"},
    {"nclasses", "model.num_classes"},
    {"numlabels", "model.num_classes"},
    {"pretrained", "model.weights"},
    {"pretrainedweights", "model.weights"},
    {"hiddendim", "model.hidden"},
    {"hiddensize", "model.hidden"},
    {"hiddensizes", "model.hidden"},
    {"amp", "model.autocast"},
    {"fp16", "model.autocast"},
    {"bf16", "model.autocast"},
    {"precision", "model.autocast"},
    {"mixedprecision", "model.autocast"},
    {"randomseed", "system.seed"},
    {"manualseed", "system.seed"},
    {"outdir", "system.work_dir"},
    {"outputdir", "system.work_dir"},
    {"savedir", "system.work_dir"},
    {"logdir", "system.work_dir"},
    {"defaultrootdir", "system.work_dir"},
    {"nthreads", "system.threads"},
    {"numthreads", "system.threads"},
    {"accelerator", "system.device"},
    {"syncbn", "parallel.sync_batch_norm"},
    {"syncbatchnorm", "parallel.sync_batch_norm"},
    {"distbackend", "parallel.backend"},
    {"resumefrom", "checkpoint.resume"},
    {"resumefromcheckpoint", "checkpoint.resume"},
    {"ckptpath", "checkpoint.resume"},
    {"savetopk", "checkpoint.keep"},
    {"savetotallimit", "checkpoint.keep"},
    {"savesteps", "checkpoint.every_steps"},
    {"loginterval", "callbacks.loss_every"},
    {"logeverynsteps", "callbacks.loss_every"},
    {"loggingsteps", "callbacks.loss_every"},
    {"printfreq", "callbacks.loss_every"},
});

struct ForeignSection {
  std::string_view name;  ///< as above
  std::string_view advice;
};

// Sections and keys of other frameworks that have no single counterpart.
constexpr auto kForeignSections = std::to_array<ForeignSection>({
    {"optimwrapper",
     "here the section 'optimizer' has the optimizer itself; accumulative_counts is train.accumulate, "
     "clip_grad.max_norm is train.clip_norm, AmpOptimWrapper is model.autocast"},
    {"paramscheduler", "here the section 'scheduler' has the one schedule of a run, with its warm-up"},
    {"traincfg", "here train.epochs or train.steps says how long to train, train.eval_every when to evaluate"},
    {"valcfg", "here evaluations need no section; train.eval_every says when they are"},
    {"testcfg", "here a test needs no section: lockstep eval measures weights"},
    {"traindataloader",
     "here the section 'data' names the data set, data.batch_size, data.workers and data.train_transforms"},
    {"valdataloader", "here the section 'data' names both splits, data.eval_batch_size and data.eval_transforms"},
    {"testdataloader", "here the section 'data' names both splits, data.eval_batch_size and data.eval_transforms"},
    {"valevaluator", "here 'metrics' lists what evaluations measure, e.g. metrics: [accuracy, f1]"},
    {"testevaluator", "here 'metrics' lists what evaluations measure, e.g. metrics: [accuracy, f1]"},
    {"defaulthooks", "here checkpoint.every_epochs, callbacks.loss_every and callbacks.use say the same"},
    {"customhooks", "here callbacks.use lists callbacks"},
    {"visualizer", "here callbacks.tensorboard writes event files"},
    {"envcfg", "here no section is needed: the launcher's variables and parallel.backend say the same"},
    {"launcher", "here no key is needed: the launcher is found out from its variables"},
    {"gpus", "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"ngpus", "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"numgpus", "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"gpuids", "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"worldsize", "here the number of ranks is not a key: lockstep run --nproc-per-node N starts N of them"},
    {"system.mode", "here there is one mode of execution; remove the key"},
});

struct ForeignValue {
  std::string_view name;  ///< in lower case, without '_'
  std::string_view ours;
};

// Values of other frameworks' keys, of which the choices of a key tell which are meant.
constexpr auto kForeignValues = std::to_array<ForeignValue>({
    {"autoparallel", "auto"},
    {"semiautoparallel", "semi_auto"},
    {"hybridparallel", "semi_auto"},
    {"gpu", "cuda"},
    {"fp16", "float16"},
    {"half", "float16"},
    {"bf16", "bfloat16"},
    {"crossentropyloss", "cross_entropy"},
    {"steplr", "step"},
    {"multisteplr", "multi_step"},
    {"exponentiallr", "exponential"},
    {"cosineannealinglr", "cosine"},
    {"cosineannealing", "cosine"},
    {"onecyclelr", "one_cycle"},
    {"polylr", "polynomial"},
    {"momentumsgd", "momentum"},
    {"dynamiclossscaler", "dynamic"},
    {"staticlossscaler", "static"},
});

std::string fold(std::string_view key) {
  std::string folded;
  for (const char c : key) {
    if (c == '_' || c == '-') continue;
    folded += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return folded;
}

}  // namespace

std::string here_instead_of(std::string_view key, std::span<const std::string> known) {
  const std::string folded = fold(key);
  const auto* found = std::ranges::find(kForeignKeys, std::string_view(folded), &ForeignKey::name);
  if (found != kForeignKeys.end() && std::ranges::find(known, found->ours) != known.end()) {
    return fmt::format("; here it is called '{}'", found->ours);
  }
  const auto* section = std::ranges::find(kForeignSections, std::string_view(folded), &ForeignSection::name);
  return section == kForeignSections.end() ? "" : fmt::format("; {}", section->advice);
}

std::string value_here(std::string_view value, std::span<const std::string> choices) {
  const std::string folded = fold(value);
  const auto* found = std::ranges::find(kForeignValues, std::string_view(folded), &ForeignValue::name);
  if (found == kForeignValues.end() || std::ranges::find(choices, found->ours) == choices.end()) return "";
  return fmt::format("; here it is called '{}'", found->ours);
}

}  // namespace lockstep
