-- Q17, small-quantity-order revenue: what would be lost a year without small orders of a part.
select sum(l_extendedprice) / 7.0 as avg_yearly
from lineitem
join part on p_partkey = l_partkey
where p_brand = 'Brand#23'
  and p_container = 'MED BOX'
  and l_quantity < (
    select 0.2 * avg(same.l_quantity) from lineitem as same where same.l_partkey = p_partkey
  )
