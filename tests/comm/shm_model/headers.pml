/* lockstep/comm/shm/endpoint.cpp: the ring of headers, and mismatches that leave no trace.
 *
 * A rank enters collective k only when all have completed k - HEADERS, settles a collective when all headers are there,
 * in order, and completes in order. One that is staged enters after the one before has settled and takes a chunk; one
 * in place need not wait for that. Collective MISMATCHED differs on rank 0, and gives its chunk back. Checked: a header is never overwritten before everybody has read it, all ranks take
 * the same chunks for the same collective, and nobody gets stuck.
 *
 * -DBROKEN=1: headers are overwritten without waiting.
 * -DBROKEN=2: the chunk of a mismatched collective is not given back.
 */
#ifndef BROKEN
#define BROKEN 0
#endif
#define RANKS 3
#define HEADERS 2
#define COLLECTIVES 6
#define MISMATCHED 2
#define STAGED(k) ((k) <= 2 || (k) == 6)    /* the others work in place */

/* A header: the collective, and whether it is the one that differs. `sequence` is stored last. */
#define SLOT(rank, k) ((rank) * HEADERS + (k) % HEADERS)
byte sequence[RANKS * HEADERS];
byte content[RANKS * HEADERS];
byte completed[RANKS];
byte first_chunk[COLLECTIVES + 1];    /* as the first rank to settle counts; 255: none has yet */

#define MAY_ENTER(k) ((k) <= HEADERS || (completed[0] + HEADERS >= (k) && completed[1] + HEADERS >= (k) && completed[2] + HEADERS >= (k)))
#define SEEN(r, k) (sequence[SLOT(r, k)] >= (k))
#define DIFFERENT 100

proctype rank(byte me) {
  byte entered = 0;
  byte settled = 0;
  byte taken = 0;    /* chunks */
  byte k;
  byte i;
  byte mine;
  bool agree;

  do
  :: completed[me] == COLLECTIVES -> break
  :: entered < COLLECTIVES && (!STAGED(entered + 1) || entered == settled) &&
#if BROKEN == 1
     true ->
#else
     MAY_ENTER(entered + 1) ->
#endif
    k = entered + 1;
    if
    :: STAGED(k) -> mine = taken; taken++
    :: else
    fi;
    content[SLOT(me, k)] = k + (k == MISMATCHED && me == 0 -> DIFFERENT : 0);
    sequence[SLOT(me, k)] = k;
    entered = k
  :: settled < entered && SEEN(0, settled + 1) && SEEN(1, settled + 1) && SEEN(2, settled + 1) ->
    k = settled + 1;
    agree = true;
    i = 0;
    do
    :: i == RANKS -> break
    :: else ->
      assert(content[SLOT(i, k)] % DIFFERENT == k);
      agree = agree && (content[SLOT(i, k)] == content[SLOT(me, k)]);
      i++
    od;
    assert(agree == (k != MISMATCHED) || me != 0);
    if
    :: !agree ->
#if BROKEN == 2
      if
      :: me != 0 -> taken--
      :: else
      fi
#else
      taken--
#endif
    :: agree && STAGED(k) ->
      d_step {
        if
        :: first_chunk[k] == 0 -> first_chunk[k] = mine + 1
        :: else
        fi;
        assert(first_chunk[k] == mine + 1)
      }
    :: else
    fi;
    settled = k
  :: completed[me] < settled -> completed[me] = completed[me] + 1
  od
}

init {
  atomic {
    run rank(0);
    run rank(1);
    run rank(2)
  }
}
