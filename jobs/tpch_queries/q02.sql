-- Q2, minimum cost supplier: who in a region sells each part of one kind and size at the lowest cost.
with offers as (
    select ps_partkey, ps_supplycost, s_acctbal, s_name, s_address, s_phone, s_comment, n_name
    from partsupp
    join supplier on s_suppkey = ps_suppkey
    join nation on n_nationkey = s_nationkey
    join region on r_regionkey = n_regionkey
    where r_name = 'EUROPE'
)
select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
from part
join offers on ps_partkey = p_partkey
where p_size = 15
  and p_type like '%BRASS'
  and ps_supplycost = (
    select min(cheapest.ps_supplycost) from offers as cheapest where cheapest.ps_partkey = p_partkey
  )
order by s_acctbal desc, n_name, s_name, p_partkey
limit 100
