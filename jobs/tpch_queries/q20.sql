-- Q20, potential part promotion: suppliers of a nation with too much of some forest parts in stock.
select s_name, s_address
from supplier
join nation on n_nationkey = s_nationkey
where n_name = 'CANADA'
  and s_suppkey in (
    select ps_suppkey
    from partsupp
    where ps_partkey in (select p_partkey from part where p_name like 'forest%')
      and ps_availqty > (
        select 0.5 * sum(l_quantity)
        from lineitem
        where l_partkey = ps_partkey
          and l_suppkey = ps_suppkey
          and l_shipdate >= date '1994-01-01'
          and l_shipdate < date '1994-01-01' + interval '1' year
      )
  )
order by s_name
