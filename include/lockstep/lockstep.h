// All public headers except those that include headers of libtorch (global/factories.h): ranks (world), groups and
// collectives (comm), data parallel training (mirrored), tensors that many ranks hold together (global), automatic
// layout (plan), the parts of a training run (data, models, train), and processes (cluster).
#pragma once

#include <lockstep/base/config.h>
#include <lockstep/base/environment.h>
#include <lockstep/base/error.h>
#include <lockstep/base/log.h>
#include <lockstep/base/text.h>
#include <lockstep/cluster/spawn.h>
#include <lockstep/comm/collectives.h>
#include <lockstep/comm/group.h>
#include <lockstep/data/files/items.h>
#include <lockstep/data/pictures.h>
#include <lockstep/data/sampler.h>
#include <lockstep/global/global_tensor.h>
#include <lockstep/kernels/tuning.h>
#include <lockstep/mirrored/data_parallel.h>
#include <lockstep/models/registry.h>
#include <lockstep/plan/auto_parallel.h>
#include <lockstep/runner/trainer.h>
#include <lockstep/samples/dataset.h>
#include <lockstep/samples/pictures.h>
#include <lockstep/state/checkpoint.h>
#include <lockstep/train/callback.h>
#include <lockstep/train/config.h>
#include <lockstep/train/named_tensors.h>
#include <lockstep/train/optimizer.h>
#include <lockstep/train/part_settings.h>
#include <lockstep/train/parts.h>
#include <lockstep/train/program.h>
#include <lockstep/train/resolved_run.h>
#include <lockstep/train/task.h>
#include <lockstep/train/trained_run.h>
#include <lockstep/version.h>
#include <lockstep/world/world.h>
